package sqlitestore

import "github.com/flowgen/flowgen/runtime/event"

// tally says what is counted together: the runs of a route that have a status, with a parent or
// without.
type tally struct {
	class  int64
	child  bool
	status event.Status
}

// terminal is a list of the statuses with which runs end.
const terminal = `('` + string(event.StatusCompleted) + `', '` + string(event.StatusFailed) + `', '` +
	string(event.StatusCanceled) + `', '` + string(event.StatusContinued) + `')`

// countTallies counts all of them.
const countTallies = `INSERT INTO tallies SELECT class, child, status, count(*) FROM runs
	WHERE hidden = 0 AND status IN ` + terminal + ` GROUP BY 1, 2, 3`

// tally records, of a run with a status with which runs end, that there are so many runs more like r.
func (t *tx) tally(r *run, more int) {
	if r.hidden || !r.status.Terminal() {
		return
	}
	t.tallies[tally{r.route, r.child, r.status}] += more
}

// saveTallies adds up what the operations of the transaction have recorded: one statement for
// each that differs, however many runs have ended.
func (t *tx) saveTallies() error {
	for of, more := range t.tallies {
		if more == 0 {
			continue
		}
		err := t.exec(`INSERT INTO tallies VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n`, of.class, of.child, string(of.status), more)
		if err == nil && more < 0 {
			err = t.exec(`DELETE FROM tallies WHERE class = +? AND child = +? AND status = +? AND n = 0`, of.class, of.child, string(of.status))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rebuildTallies counts all runs again.
func (t *tx) rebuildTallies() error {
	if err := t.exec(`DELETE FROM tallies`); err != nil {
		return err
	}
	return t.exec(countTallies)
}
