// Package admin does what operators want of the runs of a store: it finds, reads, follows and controls
// them. The command flowctl is a face of it; so is every other one, so that nothing is decided
// twice. [New] makes the [Service] that works with a client of the store itself.
//
// Everything that it returns has a JSON form, which is that of the command's output: names in lower
// camel case, times by RFC 3339 in UTC, durations in milliseconds with names that end with Ms.
// Errors are problems, see [ProblemOf]: each names its kind, its exit code and its fix.
//
// Whoever asks is a [Principal], with a role and perhaps runs of its own; [As] limits a service to what it may see and
// do. Package api serves a service over HTTP, and package remote is a Service over that.
//
// Read [Service] first, then [Run] and [Action], then [Principal].
package admin
