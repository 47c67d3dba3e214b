package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

// Store stores runs in an SQLite file. Open and OpenWith return one. All methods are safe for
// concurrent use.
type Store struct {
	path     string
	wal      string // path of the write-ahead log
	files    []db.File
	clock    store.Clock
	ctx      context.Context // canceled by Close
	cancel   context.CancelFunc
	notifier *notifier
	writer   *writer
	readers  *readers
	careful  atomic.Bool // set when damage was found: claims then read no more data than necessary
	damages  *damages
	locks    *db.Locks
	looking  looking
	foreign  chan struct{} // notified when another process has written
	polled   chan struct{} // closed when the poller has ended

	closing sync.Once
	closed  error
}

var (
	_ store.Store         = (*Store)(nil)
	_ store.Lister        = (*Store)(nil)
	_ store.Auditor       = (*Store)(nil)
	_ store.Inspector     = (*Store)(nil)
	_ store.StreamLister  = (*Store)(nil)
	_ store.StepDataStore = (*Store)(nil)
	_ store.Purger        = (*Store)(nil)
	_ store.Rebuilder     = (*Store)(nil)
)

// Config configures a store. Open uses the zero value.
type Config struct {
	// Clock is the source of all times; nil means store.SystemClock. The clocks of all processes
	// that use a file must agree.
	Clock store.Clock
	// Synchronous determines which failures a completed operation survives; zero means Normal.
	Synchronous Synchronous
}

// Synchronous determines which failures a completed operation survives. No mode can damage the
// file. After any crash the file contains all operations up to some point, and no later ones.
type Synchronous uint8

const (
	// Normal mode: every completed operation survives any end of the process, including kill -9. A
	// crash of the operating system or a loss of power can lose the operations since the last
	// checkpoint; a checkpoint is made every 4,000 pages (16 MB). Runs then continue from their
	// earlier state, and steps whose completion was lost are executed again.
	Normal Synchronous = iota
	// Full mode: every completed operation also survives a loss of power, as far as the disk
	// guarantees durability. The mode costs one fsync per transaction, which concurrent operations
	// share.
	Full
)

// String returns the name of the mode in SQLite.
func (s Synchronous) String() string {
	switch s {
	case Normal:
		return "NORMAL"
	case Full:
		return "FULL"
	}
	return fmt.Sprintf("Synchronous(%d)", uint8(s))
}

// Open opens the store in the file path. It creates the file if the file does not exist or is
// empty. A created file is readable only for its user. The directory must exist. Any number of
// processes on one machine may have the same file open. A file on a network file system must not be
// shared.
//
// An error matches store.ErrForeign if the file is not a store. It is a *store.VersionError if the
// file has another format version. Otherwise it wraps the error of the operating system or of
// SQLite.
func Open(path string) (*Store, error) { return OpenWith(path, Config{}) }

// OpenWith is like Open, but also takes a configuration.
func OpenWith(path string, cfg Config) (*Store, error) {
	s, err := open(path, cfg)
	if err != nil {
		return nil, fmt.Errorf("open sqlite store: %w", err)
	}
	return s, nil
}

func open(path string, cfg Config) (*Store, error) {
	path, err := checkPath(path)
	if err != nil {
		return nil, err
	}
	if cfg.Synchronous > Full {
		return nil, fmt.Errorf("unknown mode %s: use Normal or Full", cfg.Synchronous)
	}
	if cfg.Clock == nil {
		cfg.Clock = store.SystemClock
	}
	d := &damages{clock: cfg.Clock}
	s := &Store{path: path, clock: cfg.Clock, readers: newReaders(path, d), damages: d,
		foreign: make(chan struct{}, 1), polled: make(chan struct{})}
	ctx, cancel := context.WithTimeout(context.Background(), openPatience)
	defer cancel()
	createPrivate(path)
	c, err := connect(ctx, path, sqlite.OpenReadWrite|sqlite.OpenCreate, `cache_size = -16384`)
	if err != nil {
		return nil, s.explain(err)
	}
	if err := s.prepare(ctx, c, cfg.Synchronous); err != nil {
		return nil, errors.Join(s.explain(err), c.Close())
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	c.leaveOut(s.damages)
	s.notifier = newNotifier(s.ctx.Done())
	s.writer = newWriter(s, c, cfg.Synchronous)
	s.writer.start()
	go s.poll()
	return s, nil
}

// createPrivate creates the file if it does not exist. The file is readable only for its user,
// because it contains the inputs and results of all runs. SQLite gives its additional files the
// same mode. createPrivate writes and closes the file under a temporary name. If another store of
// this process had opened it under its own name, closing it would drop the locks of that store.
// Errors are ignored, because SQLite reports them later.
func createPrivate(path string) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".flowgen-*") // created with mode 0600
	if err != nil {
		return
	}
	if f.Close() == nil {
		_ = os.Link(f.Name(), path) // fails if the file has been created in the meantime
	}
	_ = os.Remove(f.Name())
}

// openPatience is the time for which Open waits for other processes.
const openPatience = 30 * time.Second

// prepare makes the file a store, and makes the connection its writer.
func (s *Store) prepare(ctx context.Context, c *conn, mode Synchronous) error {
	if err := prepareFile(ctx, c, s.path); err != nil {
		return err
	}
	err := c.Configure(ctx,
		"synchronous = "+mode.String(),
		"wal_autocheckpoint = 4000",
		"journal_size_limit = 67108864", // truncates the log after a long read has made it grow
	)
	if err != nil {
		return err
	}
	// The file exists now, so its real path can be determined. The log and the lock files use that
	// path, whichever links lead to the file.
	resolved, err := filepath.EvalSymlinks(s.path)
	if err != nil {
		return err
	}
	s.wal, s.locks = resolved+"-wal", db.NewLocks(resolved)
	if err := s.locks.Sweep(func(name string) (bool, error) { return c.refersTo(ctx, name) }); err != nil {
		return err
	}
	return s.remember()
}

// refersTo reports whether the row of a session contains the name of the lock file.
func (c *conn) refersTo(ctx context.Context, name string) (found bool, err error) {
	err = db.Retry(ctx, func() error {
		found = false
		return c.query(`SELECT DISTINCT lock FROM sessions WHERE lock IS NOT NULL`, func(r row) error {
			found = found || strings.HasSuffix(r.ColumnText(0), " "+name)
			return nil
		})
	})
	return found, err
}

// hasSession reports whether a session has the identity of the process.
func (c *conn) hasSession(ctx context.Context, identity string) (bool, error) {
	var sessions int64
	err := db.Retry(ctx, func() (err error) {
		sessions, err = c.number(`SELECT count(*) FROM sessions WHERE lock = +?`, identity)
		return err
	})
	return sessions > 0, err
}

// checkPath returns the absolute path, or an error if the path is invalid. It must not open the
// file: closing the file would drop the locks that SQLite holds on it for other stores of this
// process.
func checkPath(path string) (string, error) {
	switch {
	case path == "" || strings.Contains(path, ":memory:") || strings.Contains(path, "mode=memory"):
		return "", fmt.Errorf("%q is a database in memory, which is lost with the process: use memstore, or give the path of a file", path)
	case strings.Contains(path, "://"):
		return "", errors.New("this is a URL, which is not shown, as it may hold a password: give the plain path of a file")
	case strings.HasPrefix(path, "file:") || strings.HasPrefix(path, "sqlite:"):
		return "", fmt.Errorf("%q is a URL: give the plain path of a file", path)
	case strings.ContainsRune(path, 0):
		return "", fmt.Errorf("%q is not a path: it has a zero byte", path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(abs)
	switch {
	case err == nil && info.IsDir():
		return "", fmt.Errorf("%s is a directory: give the path of a file in it", path)
	case err == nil && !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", path)
	case err == nil:
		return abs, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	dir := filepath.Dir(abs)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("directory %s does not exist: create it first: %w", dir, err)
	}
	return abs, nil
}

// Clock returns the clock of the store.
func (s *Store) Clock() store.Clock { return s.clock }

// Partitions returns 1, because a file is one partition.
func (s *Store) Partitions() int { return 1 }

// Close closes the store. It waits for submitted operations, ends blocked calls with
// store.ErrClosed, and writes everything to the main file. Every later call returns
// store.ErrClosed. Open sessions end, and other processes recover them at once. Closing twice is
// harmless.
func (s *Store) Close() error {
	s.closing.Do(func() { s.closed = s.shutDown() })
	return s.closed
}

func (s *Store) shutDown() error {
	s.cancel()
	<-s.polled
	s.writer.close()
	c := s.writer.c
	err := s.readers.close()
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	// If another process holds a lock or the disk is full, the log remains with its contents. The
	// next process that closes or opens the file continues the checkpoint.
	checkpoint := c.ExecOnce(`PRAGMA wal_checkpoint(TRUNCATE)`)
	if db.Busy(checkpoint) || sqlite.ErrCode(checkpoint).ToPrimary() == sqlite.ResultFull {
		checkpoint = nil
	}
	err = errors.Join(err, s.writer.syncer.err(), checkpoint, s.locks.Close(func(id string) (bool, error) { return c.hasSession(ctx, id) }), c.Close())
	if err != nil {
		return fmt.Errorf("close sqlite store: %w", s.explain(err))
	}
	return nil
}

// enter is called at the beginning of every operation. It returns an error if the store is closed
// or ctx has ended.
func (s *Store) enter(ctx context.Context) error {
	if s.ctx.Err() != nil {
		return store.ErrClosed
	}
	return ctx.Err()
}

// enterPartition is like enter for an operation on a numbered partition.
func (s *Store) enterPartition(ctx context.Context, number int) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	if number != 0 {
		return fmt.Errorf("partition %d of 1 does not exist", number)
	}
	return nil
}

// scheme is the scheme of the URLs that store.Open accepts for a file. A URL is "sqlite:" and the
// path of the file: "sqlite:orders.db", "sqlite:/var/lib/orders.db" or
// "sqlite:///var/lib/orders.db".
const scheme = "sqlite"

func init() {
	store.Register(scheme, func(_ context.Context, url string) (store.Store, error) {
		path, err := pathOf(url)
		if err != nil {
			return nil, err
		}
		return Open(path)
	})
	store.RegisterExists(scheme, func(_ context.Context, url string) error {
		path, err := pathOf(url)
		if err != nil {
			return err
		}
		return exists(path)
	})
}

// exists returns an error unless the path leads to a non-empty file.
func exists(path string) error {
	path, err := checkPath(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return &store.MissingError{What: path}
	}
	return err
}

// pathOf returns the path of the file of a URL. It rejects a URL with a host: "sqlite://orders.db"
// does not name a file in the root directory.
func pathOf(url string) (string, error) {
	path := strings.TrimPrefix(url, scheme+":")
	rest, host := strings.CutPrefix(path, "//")
	switch {
	case !host:
		return path, nil
	case strings.HasPrefix(rest, "/"):
		return rest, nil
	}
	return "", fmt.Errorf("two slashes stand before a host, and a file has none: write %s:%s for a file beside the program, or %s:///%s for one in the root directory", scheme, rest, scheme, rest)
}

// ReplacedError reports that the file of the store or its write-ahead log was deleted, moved or
// replaced while the store had it open. Later writes would go to a file that cannot be opened
// again, so they are not acknowledged. Write operations return this error until the file is back or
// the store is opened again.
type ReplacedError struct {
	Path string
	Gone bool // the path leads to no file; otherwise it leads to another file
}

// Error returns the path of the file and how to fix the problem.
func (e *ReplacedError) Error() string {
	what := "was replaced by another file"
	if e.Gone {
		what = "was deleted or moved"
	}
	return fmt.Sprintf("%s %s while the store had it open: writes are lost: "+
		"restore the file, or stop all processes that use it and start them again; copy a store with VACUUM INTO", e.Path, what)
}

// Permanent returns true, because repeating the request does not help.
func (e *ReplacedError) Permanent() bool { return true }

// remember records the identities of the files that the store has opened. The write-ahead log
// exists as long as any process has the database open.
func (s *Store) remember() error {
	for _, path := range []string{s.path, s.wal} {
		file, err := db.Identify(path)
		if errors.Is(err, fs.ErrNotExist) && path == s.wal {
			continue
		}
		if err != nil {
			return err
		}
		s.files = append(s.files, file)
	}
	return nil
}

// inPlace returns a *ReplacedError if a path does not lead to the open file. It is called after
// each commit and before the acknowledgment, so the file at the path contains every acknowledged
// operation. It costs one stat per file, about a microsecond, for all operations of a transaction.
// Other errors of stat are ignored, because they do not prove that the file was replaced.
func (s *Store) inPlace() error {
	for i := range s.files {
		f := &s.files[i]
		same, err := f.InPlace()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return &ReplacedError{Path: f.Path, Gone: true}
		case err == nil && !same:
			return &ReplacedError{Path: f.Path}
		}
	}
	return nil
}
