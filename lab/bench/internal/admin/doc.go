// Package admin measures typical queries of operators on a store with a realistic number of runs:
// lists with one filter and with several, a workflow that does not exist, and counts. Each figure
// is compared with its budget.
package admin
