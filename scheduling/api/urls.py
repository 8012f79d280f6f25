from rest_framework.routers import SimpleRouter

from scheduling.api.viewsets import JobDoor

router = SimpleRouter(trailing_slash=False)
router.register("jobs", JobDoor, basename="job")

urlpatterns = router.urls
