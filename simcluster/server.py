import uvicorn

from simcluster.http import App


def make_server(app: App) -> uvicorn.Server:
    """A uvicorn server for `app`, quiet, and quick to stop."""
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_level="warning",
        access_log=False,
        ws="none",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=75,
    )
    return uvicorn.Server(config)
