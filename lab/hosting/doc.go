// Package hosting tests the manifests in docs/kubernetes and the unit in docs/systemd: against the
// types of Kubernetes, the schemas of KEDA, systemd-analyze, and what the programs do.
package hosting
