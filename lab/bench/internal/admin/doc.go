// Package admin measures what operators ask a store, with as many runs as they have: lists
// by one filter and by several, a workflow that does not exist, counts. Each figure stands beside its budget.
package admin
