// Package functions executes runs by functions that are killed at each of their commits.
//
// It emulates a function platform: a server that passes each request to a process which executes one
// run at a time, and that starts a process if none is free. A process kills itself with SIGKILL before
// or after a commit of a run, once for each commit of each run. Three dispatchers call the platform, of
// which two lose the store for a while. At the end each run must have completed, and no step may have
// been executed after its completion was durable.
package functions
