// Package alert defines when workers notify operators of runs that need attention, and how.
//
// A rule selects conditions and runs, and names a target. Workers with rules report each failure
// group at most once per window of a rule:
//
//	worker.New(client, worker.Config{Alerts: alert.Config{
//		Rules:   []alert.Rule{{Name: "failures", Conditions: []alert.Condition{alert.Failed}, Target: "ops"}},
//		Targets: map[string]alert.Target{"ops": &webhook.Webhook{URL: url, Secret: secret}},
//	}})
//
// The commit that ends a run as failed also requests a run that delivers the alert, so no alert is
// lost if the worker dies. One worker of the fleet searches for the other conditions every minute.
//
// Targets that receive HTTP requests are in package webhook, so a worker without them does not link
// an HTTP client. If a target has a method Check() error, Config.Check calls it.
//
// Reading order: [Config], [Rule], [Condition], [Target], [Alert].
package alert
