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

// Locks proves that the process of a session has ended.
//
// When a store opens its first session, it creates a file beside the database and takes an exclusive
// flock on it. It holds the lock as long as the store is open. The kernel drops the lock when the
// last descriptor of that open file is closed: when the store is closed, or when the process has
// ended in any way. The row of each session identifies its lock. If another process obtains the
// lock, the session has ended.
//
// A live session must never be considered dead. While a process lives, even if it is stopped,
// swapped out or in a debugger, no other process can obtain its lock:
//
//   - The lock is an flock, which belongs to the open file. A POSIX lock would be dropped when any
//     part of the process closes the same file. Two stores in one process have two locks.
//   - The kernel that grants the lock must be the one that holds it. Therefore the row contains the
//     boot ID of the kernel, and the device and inode of the locked file as the holder read them. If
//     a process finds different values, it has opened another file or is on another machine. It then
//     considers the session live. An inode is not reused while the holder has it open, even if the
//     file is deleted.
//   - If the file is missing or cannot be opened, the session is considered live.
//   - Unknown file systems are not used, nor are those whose locks are granted by another machine
//     (localFileSystem): a server may lose a lock that the client still relies on.
//   - The lock is taken before the row of the session is written. The row is rewritten when the
//     session is used through another store.
//
// In all other cases the lease decides, which takes longer. The lease is also the only criterion for
// a process that lives but is stuck. A forked child shares the lock until it executes another
// program, because the descriptor is close-on-exec. During that time a dead process appears live,
// which is the harmless error.
type Locks struct {
	database string
	dir      string
	prefix   string // prefix of the names of lock files

	mu    sync.Mutex
	tried bool
	file  *flock.Flock
	id    string // identity of the lock; empty if the end of this store cannot be proven
}

const lockSuffix = ".lock"

// NewLocks returns the locks of a database. The path must contain no links.
func NewLocks(database string) *Locks {
	return &Locks{database: database, dir: filepath.Dir(database), prefix: filepath.Base(database) + "-worker-"}
}

// Identity returns the identity to store with the sessions of this store. The first call takes the
// lock. Identity returns "" if no lock is possible.
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
// it is locked, acquire tries another name.
func (l *Locks) acquire() (*flock.Flock, string) {
	boot := bootID()
	if boot == "" || !localFileSystem(l.dir) {
		return nil, ""
	}
	for range 10 {
		var random [8]byte
		_, _ = rand.Read(random[:]) // rand.Read never fails
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

// mode returns the mode of lock files, which is the mode of the database. A user that can open the
// database must be able to open the lock files.
func (l *Locks) mode() fs.FileMode {
	info, err := os.Stat(l.database)
	if err != nil {
		return 0o600
	}
	return info.Mode().Perm()
}

// Ended reports whether the process with the identity has provably ended. It opens no file for the
// identity of this store.
func (l *Locks) Ended(identity string) bool {
	l.mu.Lock()
	own := l.id
	l.mu.Unlock()
	if identity == own {
		return false
	}
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

// seize acquires the lock of an ended process. It returns nil if the process may be alive.
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

// owns reports whether name is the name of a lock file of this database.
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

// Sweep deletes the lock files of dead processes to which no session refers. used reports whether a
// session refers to a file. Sweep locks each file before it calls used, so no process can begin to
// refer to the file.
func (l *Locks) Sweep(used func(name string) (bool, error)) error {
	entries, _ := os.ReadDir(l.dir) // if the directory cannot be read, the lock files remain
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

// Close releases the lock. used reports whether an open session has this identity. If so, Close
// keeps the file as the proof that the session is over.
func (l *Locks) Close(used func(identity string) (bool, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tried = true
	if l.file == nil {
		return nil
	}
	referred, err := used(l.id)
	if err == nil && !referred {
		_ = os.Remove(l.file.Path()) // fails if another process has removed the file
	}
	err = errors.Join(err, l.file.Unlock())
	l.file, l.id = nil, ""
	return err
}
