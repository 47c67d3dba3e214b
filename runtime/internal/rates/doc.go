// Package rates counts the runs and steps of a worker and measures the latencies of its steps. It
// needs no metrics server: each worker publishes a [Report] as the data of its session, and readers
// merge the reports of all live workers.
//
// A [Meter] counts on the worker. All figures describe the last minute: the current slot of ten
// seconds and the six before it. The report contains durations and counts, but no times, so the
// clocks of the worker, of the store and of the reader need not agree.
//
// A report has a bounded size. It names the steps with the most attempts, and adds the others to one
// entry without a name.
package rates
