from topology.kube.live import LiveGateway, connect
from topology.models import Cluster


def gateway_to(cluster: Cluster) -> LiveGateway:
    """The way into `cluster`, with its access: what is connected to look only is sent no write.

    ClusterAway when the kubeconfig leads nowhere.
    """
    return connect(cluster.kubeconfig_path, writes=cluster.is_writable)
