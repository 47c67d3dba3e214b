// Package flows contains the workflows that the speed program measures. Each kind of workflow has
// its own package, so that a worker registers no other workflows. The code is generated in the same
// way as the code of any user, so that the figures apply to users.
package flows
