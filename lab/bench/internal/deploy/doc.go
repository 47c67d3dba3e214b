// Package deploy shows what happens to runs under way while the workers are replaced by
// workers with other code: worker processes of two builds on one store, and a load of
// runs with long steps, of which one half is started before and one half during the
// deploy.
//
// Each cell of its table is one such deploy. flows.go has the code of both builds,
// worker.go the processes, cell.go one deploy, and table.go what became of the runs.
package deploy
