// Package otelflow exports metrics and spans of workflows with OpenTelemetry.
//
// A [Telemetry] is an observer of package observe:
//
//	t := otelflow.New(otelflow.Config{})
//	w := worker.New(client, worker.Config{Observers: []observe.Observer{t}})
//
// Everything is computed from committed events. So a replay exports nothing twice, and a process
// that takes a run over can export what a killed process has committed and not exported.
package otelflow
