//go:build unix

package sqlitestore_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// The recorder records the calls of SQLite on the files of one database. It passes them to the file
// system, except syncs, whose effect the test determines.

// call is a call that changes a file or makes changes durable.
type call struct {
	kind callKind
	file string // "db" or "wal"
	at   int64  // offset of a write, or new size of a truncated file
	data []byte
}

type callKind uint8

const (
	callWrite callKind = iota
	callTruncate
	callSync
	callAnswer // not a call of SQLite: an operation of the store was completed
)

// recorder records the calls on the files of one database.
type recorder struct {
	mu    sync.Mutex
	path  string
	calls []call
	files map[uintptr]openFile
	hang  func() // if not nil, it is called by each sync, which ends when hang returns
}

// openFile is a file that SQLite has open.
type openFile struct {
	name    string // empty if the file belongs to another database
	methods *lib.Tsqlite3_io_methods
}

// record is the active recorder. It is a variable because SQLite accepts functions but no closures.
var record *recorder

// startRecording records the calls of all connections to the database that are opened later, until
// stop is called.
func startRecording(t *testing.T, path string) (r *recorder, stop func()) {
	t.Helper()
	record = &recorder{path: path, files: map[uintptr]openFile{}}
	tls := libc.NewTLS()
	system := lib.Xsqlite3_vfs_find(tls, 0)
	vfs := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_vfs{})))
	*at[lib.Tsqlite3_vfs](vfs) = *at[lib.Tsqlite3_vfs](system)
	name, err := libc.CString("recorder")
	check(t, err)
	at[lib.Tsqlite3_vfs](vfs).FzName = name
	systemFiles = system
	at[lib.Tsqlite3_vfs](vfs).FxOpen = pointerTo(recordOpen)
	lib.Xsqlite3_vfs_register(tls, vfs, 1)
	return record, func() {
		lib.Xsqlite3_vfs_unregister(tls, vfs)
		lib.Xsqlite3_vfs_register(tls, system, 1)
		libc.Xfree(tls, vfs)
		libc.Xfree(tls, name)
		tls.Close()
	}
}

// systemFiles is the file system of the operating system.
var systemFiles uintptr

func recordOpen(tls *libc.TLS, _, path, file uintptr, flags int32, outFlags uintptr) int32 {
	type open = func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32
	rc := functionAt[open](at[lib.Tsqlite3_vfs](systemFiles).FxOpen)(tls, systemFiles, path, file, flags, outFlags)
	if methods := at[lib.Tsqlite3_file](file); rc == 0 && methods.FpMethods != 0 {
		system := at[lib.Tsqlite3_io_methods](methods.FpMethods)
		record.open(file, libc.GoString(path), system)
		methods.FpMethods = recording(tls, system)
	}
	return rc
}

var (
	wrapped   = map[*lib.Tsqlite3_io_methods]uintptr{}
	wrappedMu sync.Mutex
)

// recording returns the recording methods for a kind of file. There are few kinds of files, so the
// methods are never released.
func recording(tls *libc.TLS, system *lib.Tsqlite3_io_methods) uintptr {
	wrappedMu.Lock()
	defer wrappedMu.Unlock()
	if p := wrapped[system]; p != 0 {
		return p
	}
	p := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(*system)))
	m := at[lib.Tsqlite3_io_methods](p)
	*m = *system
	m.FxWrite, m.FxTruncate, m.FxSync = pointerTo(recordWrite), pointerTo(recordTruncate), pointerTo(recordSync)
	wrapped[system] = p
	return p
}

func recordWrite(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32 {
	type write = func(*libc.TLS, uintptr, uintptr, int32, int64) int32
	f := record.note(file, call{kind: callWrite, at: offset, data: bytes.Clone(libc.GoBytes(data, int(n)))})
	return functionAt[write](f.methods.FxWrite)(tls, file, data, n, offset)
}

func recordTruncate(tls *libc.TLS, file uintptr, size int64) int32 {
	type truncate = func(*libc.TLS, uintptr, int64) int32
	f := record.note(file, call{kind: callTruncate, at: size})
	return functionAt[truncate](f.methods.FxTruncate)(tls, file, size)
}

func recordSync(_ *libc.TLS, file uintptr, _ int32) int32 {
	record.note(file, call{kind: callSync})
	record.mu.Lock()
	hang := record.hang
	record.mu.Unlock()
	if hang != nil {
		hang()
	}
	return 0
}

func (r *recorder) open(file uintptr, path string, methods *lib.Tsqlite3_io_methods) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := ""
	switch base := filepath.Base(path); {
	case filepath.Base(r.path) == base:
		name = "db"
	case strings.HasSuffix(base, "-wal"):
		name = "wal"
	}
	r.files[file] = openFile{name, methods}
}

func (r *recorder) note(file uintptr, c call) openFile {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.files[file]
	if c.file = f.name; c.file != "" {
		r.calls = append(r.calls, c)
	}
	return f
}

// answered records that an operation was completed.
func (r *recorder) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call{kind: callAnswer})
}

// at returns the value at an address in the memory of SQLite.
func at[T any](address uintptr) *T {
	return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&address)))
}

// pointerTo returns f as a function pointer for SQLite. It must not be a closure.
func pointerTo[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

// functionAt returns the function at a function pointer of SQLite.
func functionAt[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&address)) }
