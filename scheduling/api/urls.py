from rest_framework.routers import SimpleRouter

from scheduling.api.arrays import ArrayDoor
from scheduling.api.viewsets import JobDoor

router = SimpleRouter(trailing_slash=False)
router.register("jobs", JobDoor, basename="job")
router.register("arrays", ArrayDoor, basename="array")

urlpatterns = router.urls
