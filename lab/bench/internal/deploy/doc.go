// Package deploy shows the effect on active runs of replacing workers by workers with different
// code. It uses worker processes of two builds on one store, and runs with long steps. Half of the
// runs start before the deployment and half during it.
//
// Each cell of its table is one such deployment. flows.go contains the code of both builds,
// worker.go the processes, cell.go one deployment, and table.go the table of outcomes.
package deploy
