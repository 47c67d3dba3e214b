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
	// trimPatience is how long writing waits for the reads that are going on. If
	// they take longer, they are waited for again when the log has grown by a
	// quarter of the limit.
	trimPatience = 500 * time.Millisecond
)

// trimmer keeps the write-ahead log from growing for ever.
type trimmer struct {
	limit int64
	at    int64 // the size from which on it is tried to empty the log
}

// trim empties the write-ahead log if it has grown too long. Readers that follow
// each other without a gap would keep it from being started over for ever; so
// for the time of one checkpoint no reader of this process begins.
func (w *writer) trim() {
	if w.commits.Load()%trimEvery != 0 {
		return
	}
	info, err := os.Stat(w.s.wal)
	if err != nil || info.Size() < max(w.log.limit, w.log.at) {
		return
	}
	w.log.at = info.Size() + w.log.limit/4
	resume, paused := w.s.readers.pause(trimPatience)
	defer resume()
	if !paused {
		return
	}
	// A reader of another process may be in the way: then it is for next time.
	err = w.c.execOnce(`PRAGMA wal_checkpoint(TRUNCATE)`)
	if left, stat := os.Stat(w.s.wal); err == nil && stat == nil && left.Size() == 0 {
		w.log.at = 0
	}
}

// pause keeps reads from beginning until resume is called, and waits for those
// that are going on. It reports whether they have ended in time.
func (r *readers) pause(patience time.Duration) (resume func(), paused bool) {
	held := make(chan *conn, readerCount)
	r.mu.Lock()
	r.held = held // whoever waits for a connection does not get one any more
	r.mu.Unlock()
	var taken []*conn
	resume = func() {
		r.mu.Lock()
		r.held = nil
		r.mu.Unlock()
		close(held)
		for c := range held {
			taken = append(taken, c)
		}
		for _, c := range taken {
			r.free <- c
		}
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for range readerCount {
		select {
		case c := <-r.free:
			taken = append(taken, c)
		case c := <-held:
			taken = append(taken, c)
		case <-timeout.C:
			return resume, false
		}
	}
	return resume, true
}
