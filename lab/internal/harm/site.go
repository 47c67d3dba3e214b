package harm

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"

	_ "github.com/flowgen/flowgen/redisstore"  // registers the scheme redis:
	_ "github.com/flowgen/flowgen/sqlitestore" // registers the scheme sqlite:
)

// Site is the store of an experiment with its server processes.
type Site struct {
	*Group

	// URL is the address for [store.Open].
	URL string
	// Servers contains the servers that the experiment has started. It may kill them.
	Servers []*Redis
	// Pair is a master with a replica, or nil if the store has none.
	Pair *Pair
	// Store and Client belong to the driver. Connect sets them.
	Store  store.Store
	Client *workflow.Client

	disconnect func()
	temporary  string // directory that Close removes; empty if there is none
	prefix     string // key prefix on an external server; empty for all other stores
}

// Own reports whether the program starts the servers of a store of the given kind.
func Own(what string) bool { return what == "redis" || what == "redis-cluster" }

// Paired is the kind of a store on a master and a replica that the program starts.
const Paired = "redis-sentinel"

// Check returns an error if a store of the given kind or URL cannot be used. It does not connect to
// the store.
func Check(what string) error {
	scheme, rest, _ := strings.Cut(what, ":")
	switch {
	case Own(what), what == Paired:
		_, err := ServerBinary()
		return err
	case scheme == "memory":
		return errors.New("memory: lives in one process, and this is about processes that die: use redis, redis-cluster, sqlite:PATH or a URL")
	case scheme == "sqlite" && rest == "":
		return errors.New("sqlite: names no file: write sqlite:PATH")
	case scheme == "sqlite":
		return absent(strings.TrimPrefix(rest, "//"))
	case slices.Contains([]string{"redis", "rediss"}, strings.SplitN(scheme, "+", 2)[0]):
		_, err := url.Parse(what)
		return err
	}
	return fmt.Errorf("%q is none of redis, redis-cluster, redis-sentinel, sqlite:PATH, redis://…, redis+cluster://…, redis+sentinel://…", what)
}

// absent returns an error if a file exists, because the contents of an existing store would be part
// of the evidence.
func absent(path string) error {
	switch _, err := os.Stat(path); {
	case err == nil:
		return fmt.Errorf("%s exists: name a file that does not, everything in it is checked at the end", path)
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	return nil
}

// Settings returns settings with which servers keep their data when they are killed.
func Settings(appendfsync string) []string {
	return []string{"--appendonly", "yes", "--appendfsync", appendfsync}
}

// Open prepares a store of the given kind or URL. It starts servers in dir, or chooses a new key
// prefix on an external server. If dir is empty, it uses a temporary directory, which Close
// removes.
func Open(ctx context.Context, dir, what string, settings ...string) (_ *Site, err error) {
	if err := Check(what); err != nil {
		return nil, err
	}
	s := &Site{}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "bench-"); err != nil {
			return nil, err
		}
		s.temporary = dir
	}
	if s.Group, err = NewGroup(dir); err == nil {
		err = s.start(ctx, what, settings)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Site) start(ctx context.Context, what string, settings []string) (err error) {
	switch {
	case what == "redis":
		r, err := s.StartRedis(ctx, "redis", settings...)
		if err != nil {
			return err
		}
		s.URL, s.Servers = "redis://"+r.Addr, []*Redis{r}
	case what == "redis-cluster":
		if s.Servers, err = s.StartCluster(ctx, settings...); err != nil {
			return err
		}
		others := url.Values{}
		for _, n := range s.Servers[1:] {
			others.Add("addr", n.Addr)
		}
		s.URL = "redis+cluster://" + s.Servers[0].Addr + "?" + others.Encode()
	case what == Paired:
		if s.Pair, err = s.StartPair(ctx, settings...); err != nil {
			return err
		}
		s.URL = "redis+sentinel://" + s.Pair.Sentinel + "?wait_replicas=1&wait_timeout=500ms&master_name=" + pairName
	case strings.HasPrefix(what, "sqlite:"):
		s.URL = what
	default:
		u, err := url.Parse(what)
		if err != nil {
			return fmt.Errorf("read the URL of the store: %w", err)
		}
		var random [4]byte
		_, _ = rand.Read(random[:]) // Read never fails.
		query := u.Query()
		s.prefix = query.Get("prefix") + "bench-" + hex.EncodeToString(random[:])
		query.Set("prefix", s.prefix)
		u.RawQuery = query.Encode()
		s.URL = u.String()
	}
	return nil
}

// Connect opens the store and the client of the driver. They log to driver.log.
func (s *Site) Connect(ctx context.Context) error {
	f, err := os.OpenFile(filepath.Join(s.Dir, "driver.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if s.Store, err = store.Open(ctx, s.URL); err != nil {
		return errors.Join(err, f.Close())
	}
	redis.SetLogger(redisLog{f}) // The client logs a line for each server that is down.
	if s.Client, err = NewClient(s.Store, f); err != nil {
		return errors.Join(err, s.Store.Close(), f.Close())
	}
	s.disconnect = func() {
		_ = s.Client.Close()
		_ = s.Store.Close()
		_ = f.Close()
	}
	return nil
}

// redisLog writes the log lines of go-redis to a file.
type redisLog struct{ w io.Writer }

// Printf writes a line to the file.
func (l redisLog) Printf(_ context.Context, format string, args ...any) {
	fmt.Fprintf(l.w, format+"\n", args...)
}

// Patient returns the URL of the store with longer timeouts, with which all data can be read in one
// request.
func (s *Site) Patient() string {
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme == "sqlite" {
		return s.URL
	}
	query := u.Query()
	query.Set("read_timeout", "2m")
	u.RawQuery = query.Encode()
	return u.String()
}

// Prefix returns the key prefix on an external server, or "" for other stores.
func (s *Site) Prefix() string { return s.prefix }

// Close disconnects the driver and kills the remaining processes.
func (s *Site) Close() {
	if s.disconnect != nil {
		s.disconnect()
	}
	if s.Group != nil {
		s.Group.Close()
	}
	if s.temporary != "" {
		_ = os.RemoveAll(s.temporary) // The directory is temporary, so the removal may fail.
	}
}
