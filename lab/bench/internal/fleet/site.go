package fleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
)

// Site is the store of an experiment.
type Site struct {
	// URL opens the store.
	URL string
	// Servers contains the servers that the experiment has started and may kill.
	Servers []*Redis
	// Pair is a master with a replica, or nil.
	Pair *Pair

	prefix string // key prefix on an external server; empty if the store is removed with the experiment
}

// Own reports whether what selects a store whose servers the program starts.
func Own(what string) bool { return what == "redis" || what == "redis-cluster" }

// Paired selects a store on a master and a replica that the program starts.
const Paired = "redis-sentinel"

// Check returns an error if a store cannot be used. It does not connect to the store.
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

// absent returns an error if a file exists, because its contents would be included in the check.
func absent(path string) error {
	switch _, err := os.Stat(path); {
	case err == nil:
		return fmt.Errorf("%s exists: name a file that does not, everything in it is checked at the end", path)
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	return nil
}

// Settings returns settings with which servers keep their data when killed.
func Settings(appendfsync string) []string {
	return []string{"--appendonly", "yes", "--appendfsync", appendfsync}
}

// Open prepares a store of the given kind: it starts servers in dir, or chooses a new key prefix on
// an external server.
func Open(ctx context.Context, guard *Guard, dir, what string, settings ...string) (*Site, error) {
	if err := Check(what); err != nil {
		return nil, err
	}
	switch what {
	case "redis":
		r, err := StartRedis(ctx, guard, dir, "redis", settings...)
		if err != nil {
			return nil, err
		}
		return &Site{URL: "redis://" + r.Addr, Servers: []*Redis{r}}, nil
	case "redis-cluster":
		nodes, err := StartCluster(ctx, guard, dir, settings...)
		if err != nil {
			return nil, err
		}
		others := url.Values{}
		for _, n := range nodes[1:] {
			others.Add("addr", n.Addr)
		}
		return &Site{URL: "redis+cluster://" + nodes[0].Addr + "?" + others.Encode(), Servers: nodes}, nil
	}
	if what == Paired {
		pair, err := StartPair(ctx, guard, dir, settings...)
		if err != nil {
			return nil, err
		}
		return &Site{URL: "redis+sentinel://" + pair.Sentinel + "?wait_replicas=1&wait_timeout=500ms&master_name=" + pairName, Pair: pair}, nil
	}
	if strings.HasPrefix(what, "sqlite:") {
		return &Site{URL: what}, nil
	}
	u, err := url.Parse(what)
	if err != nil {
		return nil, fmt.Errorf("read the URL of the store: %w", err)
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	query := u.Query()
	s := &Site{prefix: query.Get("prefix") + "bench-" + hex.EncodeToString(random[:])}
	query.Set("prefix", s.prefix)
	u.RawQuery = query.Encode()
	s.URL = u.String()
	return s, nil
}

// Patient returns a URL with longer timeouts, for reading all data in one request.
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

// Close kills the servers.
func (s *Site) Close() {
	killAll(s.Servers)
	if s.Pair != nil {
		s.Pair.Kill()
	}
}
