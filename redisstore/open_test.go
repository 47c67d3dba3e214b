package redisstore_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
)

func TestOpen_ChecksTheURLAndDoesNotDial(t *testing.T) {
	for _, url := range []string{
		"redis://localhost", "redis://user:secret@localhost:6379/3", "rediss://localhost:6380",
		"redis+cluster://a:1?addr=b:2", "redis://a:1?cluster=true", "rediss+cluster://a:1",
		"redis+sentinel://a:1/0?master_name=main&addr=b:2", "redis://a:1?master_name=main",
		"redis://a?prefix=shop&partitions=4&wait_replicas=1&wait_timeout=500ms&read_timeout=2s&pool_size=3",
	} {
		st, err := redisstore.Open(url)
		if err != nil {
			t.Errorf("open %s: %v", url, err)
			continue
		}
		if err := st.Close(); err != nil {
			t.Errorf("close %s: %v", url, err)
		}
	}
	for url, want := range map[string]string{
		"localhost:6379":                   `scheme "localhost" is none of redis`,
		"http://localhost":                 `scheme "http" is none of redis`,
		"redis:6379":                       "names no host",
		"redis://a?partitions=many":        "parameter partitions is not a number",
		"redis://a?partitions=-1":          "parameter partitions is not a number",
		"redis://a?partitions=100000":      "100000 partitions: use 1 to",
		"redis://a?wait_timeout=x":         "not a duration",
		"redis://a?prefix={x}":             "has braces",
		"redis://a?cluster=maybe":          "use true or false",
		"redis+sentinel://a":               "needs ?master_name=",
		"redis://a?pool_size=2&other=1":    "parameter 2 of the URL is unknown",
		"redis://a?read_timeout=x":         "parameter read_timeout has a value",
		"redis://user:se%zzcret@localhost": "read the URL",
	} {
		_, err := redisstore.Open(url)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "open redis store: ") {
			t.Errorf("open %s: got %v, want an error with %q", url, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "cret") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	if _, err := redisstore.New(nil, redisstore.Config{}); err == nil {
		t.Error("a nil client was accepted")
	}
	ring := closing(t, redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}}))
	if _, err := redisstore.New(ring, redisstore.Config{}); err == nil || !strings.Contains(err.Error(), "redis.Ring") {
		t.Errorf("a ring: got %v, want an error that names it", err)
	}
}

func TestClose_LeavesTheCallersClientOpen(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	st, err := redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix()})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the client after the store was closed: %v", err)
	}
}

func TestPartitions_AreFixedByTheFirstStoreOfAPrefix(t *testing.T) {
	url := with(redistest.Shared(t).URL(), "prefix="+redistest.Prefix())
	first := openURL(t, with(url, "partitions=4"))
	defer first.Close()
	other := openURL(t, with(url, "partitions=5"))
	defer other.Close()
	if _, err := first.List(t.Context(), store.Query{}); err != nil {
		t.Fatal(err)
	}
	_, err := other.List(t.Context(), store.Query{})
	var wrong *redisstore.PartitionsError
	if !errors.As(err, &wrong) || wrong.Got != 5 || wrong.Want != 4 {
		t.Errorf("list with another number of partitions: got %v, want a PartitionsError of 5 and 4", err)
	}
	same := openURL(t, with(url, "partitions=4"))
	defer same.Close()
	if _, err := same.List(t.Context(), store.Query{}); err != nil {
		t.Errorf("list with the same number of partitions: %v", err)
	}
}

func TestFormat_OfOthersAndOfOtherReleasesIsRefused(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	for content, check := range map[string]func(error) bool{
		"flowgen 2 16": func(err error) bool {
			var e *store.VersionError
			return errors.As(err, &e) && e.Got == 2 && e.Known == 1 && strings.Contains(err.Error(), "use a newer release")
		},
		"flowgen 0 16": func(err error) bool {
			var e *store.VersionError
			return errors.As(err, &e) && e.Got == 0 && e.Known == 1 && strings.Contains(err.Error(), "use the release that wrote it")
		},
		"flowgen 2 4":    func(err error) bool { return errors.As(err, new(*store.VersionError)) },
		"something else": func(err error) bool { return errors.Is(err, store.ErrForeign) },
		"flowgen x y":    func(err error) bool { return errors.Is(err, store.ErrForeign) },
		"":               func(err error) bool { return errors.Is(err, store.ErrForeign) },
	} {
		prefix := redistest.Prefix()
		if err := client.Set(t.Context(), "{"+prefix+":0}:format", content, 0).Err(); err != nil {
			t.Fatal(err)
		}
		st, err := redisstore.New(client, redisstore.Config{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.List(t.Context(), store.Query{}); !check(err) {
			t.Errorf("format %q: got %v", content, err)
		}
		if kept := client.Keys(t.Context(), "{"+prefix+":*").Val(); len(kept) != 1 || client.Get(t.Context(), kept[0]).Val() != content {
			t.Errorf("format %q: the store has changed something: %v", content, kept)
		}
	}
	prefix := redistest.Prefix()
	if err := client.RPush(t.Context(), "{"+prefix+":0}:format", "x").Err(); err != nil {
		t.Fatal(err)
	}
	st, err := redisstore.New(client, redisstore.Config{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.List(t.Context(), store.Query{}); !errors.Is(err, store.ErrForeign) {
		t.Errorf("format of another kind: got %v, want ErrForeign", err)
	}
}

// completes runs a workflow on the store with the given URL.
func completes(t *testing.T, url string) {
	t.Helper()
	f := newFleet(t, openURL(t, url))
	stop := f.work(f.store, worker.Config{}, done)
	if got := result(f, must(Fulfil.Start(f.ctx, f.client, "order-1"))); got != "order-1 shipped" {
		t.Errorf("result: got %q", got)
	}
	stop()
	sound(t, f.store)
}

// aclRules returns the ACL rules for the user of a store from docs/use/redis.md.
func aclRules(t testing.TB, prefix string) []string {
	t.Helper()
	doc, err := os.ReadFile("../docs/use/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(doc), "ACL SETUSER flowgen ")
	if !ok {
		t.Fatal("docs/use/redis.md does not say how to make a user")
	}
	line, _, _ := strings.Cut(after, "\n```")
	line = strings.NewReplacer("\\\n", " ", "{flowgen:", "{"+prefix+":").Replace(line)
	return strings.Fields(line)
}

func TestSTORE4_AUserThatIsLimitedToThePrefixIsEnough(t *testing.T) {
	server := redistest.Shared(t)
	admin, prefix := server.Client(t), redistest.Prefix()
	args := []any{"acl", "setuser", prefix}
	for _, rule := range aclRules(t, prefix) {
		args = append(args, rule)
	}
	if err := admin.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	url := "redis://" + prefix + ":secret@" + server.Addr
	completes(t, with(url, "prefix="+prefix))

	other := openURL(t, with(url, "prefix=another"))
	defer other.Close()
	_, err := other.List(t.Context(), store.Query{})
	if err == nil || !strings.Contains(err.Error(), "lacks a permission") {
		t.Errorf("list of another prefix: got %v, want an error about the permission", err)
	}
}

func TestSTORE4_AStoreOverTLSCompletesARun(t *testing.T) {
	cert, key := certificate(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	redistest.Start(t, "--tls-port", fmt.Sprint(port), "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	completes(t, fmt.Sprintf("rediss://127.0.0.1:%d?skip_verify=true", port))
}

// certificate creates a certificate for a server, and returns the names of its files.
func certificate(t testing.TB) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", signed), write("key.pem", "EC PRIVATE KEY", encoded)
}

func TestSTORE4_AMasterThatSentinelWatchesCompletesARun(t *testing.T) {
	master := redistest.Start(t)
	sentinel := redistest.StartSentinel(t, "main", master)
	completes(t, "redis+sentinel://"+sentinel.Addr+"?master_name=main")
}

func TestSTORE4_AClusterCompletesARun(t *testing.T) {
	completes(t, with(redistest.SharedCluster(t).URL(), "prefix="+redistest.Prefix()))
}

func TestSTORE4_WaitReplicasAnswersOnlyWhatAReplicaHas(t *testing.T) {
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	replica := redistest.Start(t, "--replicaof", host+" "+port)
	for n, tries := int64(0), 0; n == 0 && tries < 20; tries++ { // until the replica has received all writes
		n = must(master.Client(t).Wait(t.Context(), 1, time.Second).Result())
	}
	st := openURL(t, with(master.URL(), "wait_replicas=1&wait_timeout=5s"))
	defer st.Close()
	w := newWriter(t, st, st, 10)
	w.write(5, 1)
	want := w.runs[0]
	frames, err := replica.Client(t).XLen(t.Context(), fmt.Sprintf("{flowgen:%d}1l:%s", int(want.log.Run.Slot())%16, string(want.log.Run)[5:])).Result()
	if err != nil || int(frames) != len(want.frames) {
		t.Errorf("frames on the replica: got %d, %v, want %d", frames, err, len(want.frames))
	}

	replica.Kill()
	hasty := openURL(t, with(master.URL(), "wait_replicas=1&wait_timeout=50ms"))
	defer hasty.Close()
	c := want.log.Commit(want.fence, want.log.Work()...)
	for range 2 { // the second call must also wait, although the first call has written the commit
		if _, err := hasty.Commit(t.Context(), []store.Commit{c}); err == nil || !strings.Contains(err.Error(), "wait for replicas: 0 of 1") {
			t.Errorf("commit without a replica: got %v, want an error that counts them", err)
		}
	}
	replica.Restart(t)
	got, err := st.Commit(t.Context(), []store.Commit{c})
	if diff := cmp.Diff([]store.Committed{{N: uint64(len(want.frames)) + 1}}, got); err != nil || diff != "" {
		t.Errorf("the same commit with a replica: %v, (-want +got)\n%s", err, diff)
	}
}

func TestSTORE4_AStoreUsesABoundedNumberOfConnections(t *testing.T) {
	server := redistest.Start(t)
	f := newFleet(t, openURL(t, server.URL()))
	f.work(f.store, worker.Config{}, done)
	run := must(Sleep.Start(f.ctx, f.client, time.Hour))
	ctx, cancel := context.WithCancel(f.ctx)
	const watchers = 2000
	ended := make(chan error, watchers)
	for range watchers {
		go func() { ended <- f.store.Watch(ctx, run.ID(), 1000) }()
	}
	for n := range 300 {
		go func() { _, _ = Fulfil.Start(ctx, f.client, fmt.Sprint("order-", n)) }()
	}
	result(f, must(Fulfil.Start(f.ctx, f.client, "last")))
	list, err := server.Client(t).ClientList(f.ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for range watchers {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("watch: got %v, want context.Canceled", err)
		}
	}
	const most = 10
	if n := strings.Count(list, "\n") - 1; n > most { // one connection belongs to the test itself
		t.Errorf("%d connections, want at most %d:\n%s", n, most, list)
	}
}
