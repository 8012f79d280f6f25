// The servers of a Kubernetes control plane, and kubectl, as one program: the first argument says which it is to be.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func command(name string) *cobra.Command {
	switch name {
	case "kube-apiserver":
		return apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		return controllermanager.NewControllerManagerCommand()
	case "kube-scheduler":
		return scheduler.NewSchedulerCommand()
	case "kubectl":
		return kubectl.NewDefaultKubectlCommand()
	}
	return nil
}

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	os.Args = os.Args[1:] // each program looks at os.Args itself and wants its own name first
	if os.Args[0] == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	chosen := command(os.Args[0])
	if chosen == nil {
		usage()
	}
	os.Exit(cli.Run(chosen))
}

func usage() {
	fmt.Fprintln(os.Stderr, "Usage: servers etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubectl FLAGS")
	os.Exit(2)
}
