// Package invoke executes runs by functions instead of by long-lived workers.
//
// [Handler] is an http.Handler that executes one run for a limited time, the budget, and answers how
// it has left the run: done, parked until a time or a message, or yielded because the budget is
// exhausted. It keeps nothing between two requests, so it can be hosted by anything that serves HTTP
// requests: a plain server, a container platform, or a function platform.
//
// A [Dispatcher] calls the handler for every ready run. It executes no code of runs and owns none, so
// two dispatchers are safe, and a run that two of them select is executed once. While a dispatcher
// runs, nothing else has to: it makes due timers ready, recovers runs of functions that were killed,
// delivers messages between runs, and purges ended runs.
//
// Workers and functions may serve the same workflows at the same time.
//
// # Requests
//
// A request is a POST with the JSON object {"run": ID}. Its headers are:
//
//	Flowgen-Time       the time of the request in milliseconds since 1970
//	Flowgen-Nonce      16 to 64 characters that differ from those of other requests
//	Flowgen-Signature  v1=HEX, the HMAC-SHA256 of time, nonce, run and body; see [Sign]
//
// A handler refuses a request that is older or newer than five minutes or that it has seen before. A
// replayed request that reaches another process has no effect beyond that of the first one: an
// invocation only lets a ready run continue.
//
// A request without a run announces the function: the handler creates the schedules that its
// directives declare and answers with its routes, its build and its budget. A dispatcher sends it
// first, so that the workflows are not configured twice.
package invoke
