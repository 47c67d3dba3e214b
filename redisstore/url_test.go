package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	_ "github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/store"
	_ "github.com/flowgen/flowgen/sqlitestore"
)

// secret returns a password in two halves. The character between them must be escaped in a URL, or
// is forbidden in URLs.
func secret(between string) string { return "tr0ubadour" + between + "staple" }

// shows reports whether text contains a part of the secret.
func shows(text string) bool {
	return strings.Contains(text, "tr0ub") || strings.Contains(text, "adour") || strings.Contains(text, "stap")
}

// malformed returns URLs that contain the secret and a typical mistake. A store cannot be opened
// with any of them.
func malformed() []string {
	var all []string
	for _, between := range []string{"%zz", "%", " ", "\n", "/", "?", "#", "\\", "<", "\"", "^", "{", "[", "/?", "?x=", "#/"} {
		for _, form := range []string{
			"redis://user:%s@localhost:6379/0", "redis://:%s@localhost", "rediss://%s@localhost:6379", "redis+cluster://user:%s@a:1?addr=b:2",
			"redis+sentinel://user:%s@a:1/0?master_name=main",
		} {
			all = append(all, fmt.Sprintf(form, secret(between)))
		}
	}
	for _, form := range []string{
		// wrong or missing schemes
		"redsi://user:%s@localhost:6379", "%s@localhost:6379", "user:%s@localhost:6379", "%s:@localhost", ":%s@localhost", "redis:user:%s@localhost",
		"redis:/user:%s@localhost", "://user:%s@localhost", " redis://user:%s@localhost", "redis//user:%s@localhost", "user:%s",
		// wrong hosts and ports
		"redis://user:%s@localhost:port", "redis://user:%s@localhost:63 79", "redis://user:%s@", "redis://user:%s@[::1", "redis://user:%s@localhost:6379:0",
		"redis://localhost:%s", "redis://user:1/%s@localhost", "redis://user:1?%s@localhost", "redis://user:1#%s@localhost", "redis://user:1@2/%s@localhost",
		// lists of nodes in the form of other programs
		"redis+sentinel://a:1,b:2/0?master_name=main&password=%s", "redis+cluster://user:%s@a:1,user:x@b:port", "redis+cluster://a:1?addr=user:%s@b:2",
		"redis+cluster://a:1?addr=redis://user:%s@b:2", "redis+sentinel://a:1?master_name=m&addr=%s@b:2", "redis+sentinel://a:1?master_name=m&addr=%s",
		"redis+cluster://a:1?addr=%s@b:2",
		// wrong paths and parameters
		"redis://user:%s@localhost/zero", "redis://user:%s@localhost/0/1", "redis://localhost/%s", "redis://localhost/0?%s", "redis://localhost?sentinel_password=%s",
		"redis+sentinel://a:1?master_name=m&sentinel_password=%s", "redis://localhost?password=%s", "redis://localhost?partitions=4?password=%s",
		"redis://localhost?prefix=shop?password=%s", "redis://localhost?partitions=%s", "redis://localhost?wait_timeout=%s", "redis://localhost?read_timeout=%s",
		"redis://localhost?cluster=%s", "redis://localhost?pool_size=%s", "redis://localhost?db=%s", "redis://user:%s@localhost?read_timeout=x",
		"redis://user:%s@localhost?unknown=1", "redis://user:%s@localhost?prefix={}", "redis://user:%s@localhost?partitions=x", "redis+sentinel://user:%s@a:1",
		"redis+sentinel://a:1?master_name=m&password=x;%s", "redis+sentinel://a:1?master_name=m&password=x&%s", "redis+sentinel://a:1?master_name=m&password=x&%s=1",
		"redis+sentinel://a:1?master_name=m&password=x?%s",
		// URLs of other stores
		"memory:%s", "memory://user:%s@localhost", "sqlite:redis://user:%s@localhost:6379",
	} {
		all = append(all, fmt.Sprintf(form, secret("-")))
	}
	return all
}

func TestOpen_NoErrorShowsASecretOfAMalformedURL(t *testing.T) {
	for _, url := range malformed() {
		for by, open := range map[string]func() (store.Store, error){
			"store.Open":      func() (store.Store, error) { return store.Open(t.Context(), url) },
			"redisstore.Open": func() (store.Store, error) { return redisstore.Open(url) },
		} {
			st, err := open()
			if err == nil {
				t.Errorf("%s %q: got no error", by, url)
				_ = st.Close()
				continue
			}
			if text := fmt.Sprintf("%v %+v %#v", err, err, err); shows(text) {
				t.Errorf("%s %q: the error shows the password: %s", by, url, text)
			}
		}
	}
}

// spoken is a logger that collects the messages of go-redis.
type spoken struct {
	mu  sync.Mutex
	all strings.Builder
}

func (s *spoken) Printf(_ context.Context, format string, v ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.all, format+"\n", v...)
}

func TestOpen_NoErrorOrLogShowsTheSecretOfAServerThatIsNotThere(t *testing.T) {
	var log spoken
	redis.SetLogger(&log)
	t.Cleanup(func() { redis.SetLogger(&spoken{}) })
	var all sync.WaitGroup
	for _, form := range []string{
		"redis://user:%s@127.0.0.1:1?dial_timeout=100ms", "rediss://%s@127.0.0.1:1?dial_timeout=100ms&max_retries=-1", "redis://:%s@no.such.host.invalid?dial_timeout=100ms",
		"redis+cluster://user:%s@127.0.0.1:1?addr=127.0.0.1:2&dial_timeout=100ms",
		"redis+sentinel://user:%s@127.0.0.1:1?master_name=main&password=x-%[1]s&dial_timeout=100ms",
	} {
		all.Go(func() {
			st, err := redisstore.Open(fmt.Sprintf(form, secret("-")))
			if err != nil {
				t.Errorf("open %q: %v", form, err)
				return
			}
			defer func() { _ = st.Close() }()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if _, err := st.List(ctx, store.Query{}); err == nil || shows(fmt.Sprintf("%v %#v", err, err)) {
				t.Errorf("list of %q: got %v, want an error without the password", form, err)
			}
		})
	}
	all.Wait()
	log.mu.Lock()
	defer log.mu.Unlock()
	if shows(log.all.String()) {
		t.Errorf("the log shows the password:\n%s", log.all.String())
	}
}
