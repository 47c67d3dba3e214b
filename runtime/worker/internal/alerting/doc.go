// Package alerting reports runs to operators, by the rules of package alert.
//
// [Alerting.Ended] returns the alerts about a run that ends as failed. They are part of the event
// that ends the run, and the commit of that event writes the outbox records that create the runs
// which deliver them. [Alerting.Scan] searches for the other conditions, and for failed runs that
// were ended by workers without these rules. The ID of an alert depends only on the rule, the
// failure group and the window. So the store creates an alert once, however many workers report it.
package alerting
