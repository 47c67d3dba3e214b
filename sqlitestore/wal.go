package sqlitestore

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

// syncEvery is the number of transactions after which the write-ahead log is synced. They write
// about a fifth of the pages between two checkpoints.
const syncEvery = 256

// syncsAhead reports whether the log is synced between checkpoints. In Full mode each commit syncs
// it. On other systems than Linux the failure of a sync is not reported to every open file, so a
// sync here could hide the failure from SQLite.
func syncsAhead(mode Synchronous) bool { return mode == Normal && runtime.GOOS == "linux" }

// syncer syncs the write-ahead log while transactions continue. Without it a checkpoint, which
// blocks the writer, would sync all pages of the log at once. No operation waits for the syncer, and
// a checkpoint does not rely on it: SQLite syncs the log again, and receives the error if the pages
// could not be written.
//
// After a failed sync the log on the disk may lack parts that can still be read. A later sync would
// succeed nevertheless. Therefore the first failure is final: the store refuses further writes, and
// Close returns the failure.
type syncer struct {
	file   *os.File
	due    chan struct{} // notified to sync the log
	syncs  atomic.Uint64 // number of successful syncs, for tests
	failed atomic.Pointer[error]
}

func newSyncer() syncer { return syncer{due: make(chan struct{}, 1)} }

// open opens the log for run. It returns false if that fails: then only checkpoints sync the log.
func (y *syncer) open(wal string) bool {
	var err error
	y.file, err = os.Open(wal)
	return err == nil
}

// run syncs the log until stop is closed or a sync fails. SQLite holds no locks on the log, so
// closing the file drops none.
func (y *syncer) run(stop <-chan struct{}) {
	defer func() { _ = y.file.Close() }()
	for {
		select {
		case <-y.due:
		case <-stop:
			return
		}
		if err := y.file.Sync(); err != nil {
			err = fmt.Errorf("sync the write-ahead log: %w: operations since the last checkpoint may not survive a loss of power, and no more are accepted until the store is opened again", err)
			y.failed.Store(&err)
			return
		}
		y.syncs.Add(1)
	}
}

// err returns the error of a failed sync, or nil.
func (y *syncer) err() error {
	if err := y.failed.Load(); err != nil {
		return *err
	}
	return nil
}

const (
	// walLimit is the size in bytes at which readers are paused to empty the write-ahead log.
	// Usually the log stays at a quarter of that size, because SQLite restarts the log when there
	// are no readers.
	walLimit = 64 << 20
	// trimEvery is the number of transactions between two checks of the size of the log.
	trimEvery = 64
	// trimPatience is the time for which the writer waits for reads in progress. If they take
	// longer, the writer waits again when the log has grown by a quarter of walLimit.
	trimPatience = 500 * time.Millisecond
)

// trimmer limits the size of the write-ahead log.
type trimmer struct {
	limit   int64
	at      int64  // size in bytes at which the log is emptied
	checked uint64 // number of commits at the last check
}

// trimDue reports whether the size of the log must be checked.
func (w *writer) trimDue() bool { return w.commits.Load()-w.log.checked >= trimEvery }

// trim empties the write-ahead log if it is too long. Overlapping reads would prevent SQLite from
// restarting the log. So trim prevents new reads of this process during one checkpoint.
func (w *writer) trim() {
	if !w.trimDue() {
		return
	}
	w.log.checked = w.commits.Load()
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
	// A reader of another process may prevent this; a later call tries again.
	err = w.c.ExecOnce(`PRAGMA wal_checkpoint(TRUNCATE)`)
	if left, stat := os.Stat(w.s.wal); err == nil && stat == nil && left.Size() == 0 {
		w.log.at = 0
	}
}

// pause prevents new reads until resume is called, and waits for reads in progress. paused reports
// whether these have ended in time.
func (r *readers) pause(patience time.Duration) (resume func(), paused bool) {
	held := make(chan *conn, readerCount)
	r.mu.Lock()
	r.held = held // reads that wait for a connection continue to wait
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
