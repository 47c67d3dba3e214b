package sqlitestore

import (
	"os"
	"time"
)

const (
	// walLimit is the size of the write-ahead log from which on it is emptied
	// at the cost of whoever reads. Usually it stays at a quarter of that:
	// SQLite starts it over whenever nobody reads.
	walLimit = 64 << 20
	// trimEvery is after how many transactions the size is looked at.
	trimEvery = 64
	// trimPatience is how long writing waits for the readers to pause.
	trimPatience = 100 * time.Millisecond
)

// trim empties the write-ahead log if it has grown too long. Readers that follow
// each other without a gap would keep it from being started over for ever; so
// for the time of one checkpoint no reader of this process begins.
func (w *writer) trim() {
	if w.commits.Load()%trimEvery != 0 {
		return
	}
	info, err := os.Stat(w.s.wal)
	if err != nil || info.Size() < w.walLimit {
		return
	}
	resume, paused := w.s.readers.pause(trimPatience)
	defer resume()
	if paused {
		// A reader of another process may be in the way: then it is for next time.
		_ = w.c.execOnce(`PRAGMA wal_checkpoint(TRUNCATE)`)
	}
}

// pause keeps reads from beginning until resume is called, and waits for those
// that are going on. It reports whether they have ended in time.
func (r *readers) pause(patience time.Duration) (resume func(), paused bool) {
	var held []*conn
	resume = func() {
		for _, c := range held {
			r.free <- c
		}
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for range readerCount {
		select {
		case c := <-r.free:
			held = append(held, c)
		case <-timeout.C:
			return resume, false
		}
	}
	return resume, true
}
