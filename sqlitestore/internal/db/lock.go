package db

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gofrs/flock"
)

// Locks proves that the process behind a session has ended.
//
// When a store opens its first session, it creates a file beside the database and takes an
// exclusive flock on it, which it holds as long as the store is open. The kernel drops the lock
// when the last descriptor of that open file is closed: when the store is closed, or when the
// process has ended in any way. The row of each session identifies its lock. A process that obtains
// the lock itself knows that the session has ended.
//
// A live session must never be considered dead. No other process can obtain the lock while the
// process lives (including stopped, swapped out, or in a debugger), for the following reasons:
//
//   - It is an flock, which belongs to the open file, not a POSIX lock, which would be dropped when
//     any part of the process closes the same file. Two stores in one process have two locks.
//   - The kernel that grants the lock must be the one that holds it. Therefore the row contains the
//     boot ID of the kernel, and device and inode of the locked file as seen by the holder. A
//     process that finds different values has opened another file or is on another machine, and
//     draws no conclusion. An inode is not reused while the holder has it open, even if the file is
//     deleted.
//   - No conclusion is drawn from a file that is missing or cannot be opened.
//   - File systems whose locks are granted by another machine, and unknown ones, are not used
//     (localFileSystem): a server may lose a lock that the client believes to hold.
//   - The lock is taken before the row of the session is written, and the row is rewritten when the
//     session is used through another store.
//
// In all other cases the lease decides, which takes longer, and which is also the only criterion
// for a process that lives but is stuck. A forked child shares the lock until it executes another
// program (the descriptor is close-on-exec): during that time a dead process appears alive, which
// is the harmless error.
type Locks struct {
	database string
	dir      string
	prefix   string // of the names of lock files

	mu    sync.Mutex
	tried bool
	file  *flock.Flock
	id    string // empty if the end of this store cannot be proven
}

const lockSuffix = ".lock"

// NewLocks returns the locks of a database. The path must contain no links.
func NewLocks(database string) *Locks {
	return &Locks{database: database, dir: filepath.Dir(database), prefix: filepath.Base(database) + "-worker-"}
}

// Identity returns the identity that is stored with the sessions of this store. It takes the lock
// on first use. It returns the empty string if there can be no lock.
func (l *Locks) Identity() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.tried {
		l.tried = true
		l.file, l.id = l.acquire()
	}
	return l.id
}

// acquire creates a file with a new name and locks it. If another process removes the file before
// it is locked, acquire tries the next name.
func (l *Locks) acquire() (*flock.Flock, string) {
	boot := bootID()
	if boot == "" || !localFileSystem(l.dir) {
		return nil, ""
	}
	for range 10 {
		var random [8]byte
		_, _ = rand.Read(random[:]) // never fails
		name := l.prefix + hex.EncodeToString(random[:]) + lockSuffix
		f := flock.New(filepath.Join(l.dir, name), flock.SetFlag(os.O_CREATE|os.O_EXCL|os.O_RDWR), flock.SetPermissions(l.mode()))
		locked, err := f.TryLock()
		if err != nil {
			return nil, ""
		}
		if !locked {
			continue
		}
		held, err := f.Stat()
		linked, lost := os.Lstat(f.Path())
		if err != nil || lost != nil || !os.SameFile(held, linked) {
			_ = f.Unlock()
			continue
		}
		return f, strings.Join([]string{boot, inode(held), name}, " ")
	}
	return nil, ""
}

// mode returns the mode of lock files. It is that of the database, as SQLite does for its
// additional files: a user that can open the database must be able to open the lock file.
func (l *Locks) mode() fs.FileMode {
	info, err := os.Stat(l.database)
	if err != nil {
		return 0o600
	}
	return info.Mode().Perm()
}

// Ended reports whether the process with this identity has provably ended.
func (l *Locks) Ended(identity string) bool {
	f := l.seize(identity)
	if f == nil {
		return false
	}
	_ = f.Unlock()
	return true
}

// Remove deletes the lock file of a process that has ended.
func (l *Locks) Remove(identity string) {
	if f := l.seize(identity); f != nil {
		_ = os.Remove(f.Path())
		_ = f.Unlock()
	}
}

// seize takes the lock of a process that has ended. It returns nil if the process may be alive.
func (l *Locks) seize(identity string) *flock.Flock {
	boot, rest, _ := strings.Cut(identity, " ")
	node, name, _ := strings.Cut(rest, " ")
	if boot == "" || boot != bootID() || !l.owns(name) || !localFileSystem(l.dir) {
		return nil
	}
	f := l.tryLock(name)
	if f == nil {
		return nil
	}
	if held, err := f.Stat(); err != nil || inode(held) != node {
		_ = f.Unlock()
		return nil
	}
	return f
}

// owns reports whether name is that of a lock file of this database.
func (l *Locks) owns(name string) bool {
	return name == filepath.Base(name) && strings.HasPrefix(name, l.prefix) && strings.HasSuffix(name, lockSuffix)
}

// tryLock locks an existing file. It returns nil if the file does not exist or is locked.
func (l *Locks) tryLock(name string) *flock.Flock {
	f := flock.New(filepath.Join(l.dir, name), flock.SetFlag(os.O_RDONLY))
	if locked, err := f.TryLock(); err != nil || !locked {
		return nil
	}
	return f
}

// Sweep deletes the lock files that dead processes have left and no session refers to. used reports
// whether a session names a file. A file is locked before that is asked, so that no process can be
// about to refer to it.
func (l *Locks) Sweep(used func(name string) (bool, error)) error {
	entries, _ := os.ReadDir(l.dir) // if the directory cannot be read, the files remain
	for _, e := range entries {
		if !l.owns(e.Name()) {
			continue
		}
		f := l.tryLock(e.Name())
		if f == nil {
			continue
		}
		referred, err := used(e.Name())
		if err == nil && !referred {
			_ = os.Remove(f.Path())
		}
		_ = f.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// Close gives up the lock. used reports whether a session with this identity was left open: then
// the file stays, because it is the proof that the session is over.
func (l *Locks) Close(used func(identity string) (bool, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tried = true
	if l.file == nil {
		return nil
	}
	referred, err := used(l.id)
	if err == nil && !referred {
		_ = os.Remove(l.file.Path()) // another process may have removed it
	}
	err = errors.Join(err, l.file.Unlock())
	l.file, l.id = nil, ""
	return err
}
