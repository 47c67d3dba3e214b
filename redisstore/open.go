package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Store stores runs in Redis. Create one with Open or New. All methods are safe for concurrent use.
type Store struct {
	client         redis.UniversalClient
	owned          bool // whether Close closes the client
	parts          []*partition
	cfg            Config
	injected       store.Clock // nil to use the clock of the server
	server         *serverClock
	pubsub         *pubsub
	retained       retained
	waiterEstimate waiterEstimate
	names          *names
	pipes          sync.Pool     // empty pipelines for reuse
	done           chan struct{} // closed by Close
	closing        sync.Once
	closed         error
	preparing      sync.Mutex
	prepared       atomic.Bool
	inspecting     sync.Mutex
	inspected      map[int]*keySet
	manyRuns       int // replaces the default in tests
	fewest         int // fewestCalls, except in tests
	damages        store.Damages
}

var (
	_ store.Store         = (*Store)(nil)
	_ store.Lister        = (*Store)(nil)
	_ store.Auditor       = (*Store)(nil)
	_ store.Inspector     = (*Store)(nil)
	_ store.StepDataStore = (*Store)(nil)
	_ store.Purger        = (*Store)(nil)
	_ store.Rebuilder     = (*Store)(nil)
)

// Defaults of Config.
const (
	DefaultPrefix      = "flowgen"
	DefaultPartitions  = 16
	DefaultWaitTimeout = time.Second
)

// Config configures a store. Open uses the zero value, changed by the parameters of the URL.
type Config struct {
	// Prefix is the prefix of the names of all keys and channels, which begin with the prefix in
	// braces. An empty Prefix means DefaultPrefix. Stores with different prefixes are independent
	// of each other. Prefix must not contain braces or white space.
	Prefix string
	// Partitions is the number of partitions, each of which is in one slot of a cluster. 0 means
	// DefaultPartitions. The first store with a prefix fixes the number permanently, and a store
	// with another number fails with a *PartitionsError. With more partitions, the load is
	// distributed over more nodes, and an idle worker sends more commands.
	Partitions int
	// Clock replaces the clock of the server in tests. If Clock is nil, the store uses the clock of
	// the server, so the clocks of the machines that run workers are not relevant.
	Clock store.Clock
	// WaitReplicas is the number of replicas that must have received a creation, a commit or a
	// delivery before the call returns. These writes survive a failover if one of those replicas is
	// promoted. With 0, the store waits for no replica. Runs make no progress while fewer replicas
	// are available.
	WaitReplicas int
	// WaitTimeout is the maximum time that one attempt waits for the replicas. 0 means
	// DefaultWaitTimeout. WaitTimeout must be less than the ReadTimeout of the client that is
	// passed to New.
	WaitTimeout time.Duration
}

// PartitionsError reports that a store with the same prefix has another number of partitions.
type PartitionsError struct {
	Prefix    string
	Got, Want int // configured number; number in the database
}

// Permanent returns true.
func (e *PartitionsError) Permanent() bool { return true }

// Error returns a text with both numbers and the fix.
func (e *PartitionsError) Error() string {
	return fmt.Sprintf("prefix %q has %d partitions, the store is configured with %d: set Config.Partitions (or ?partitions= in the URL) to %d, or use another prefix",
		e.Prefix, e.Want, e.Got, e.Want)
}

// New returns a store that uses the given client, which may connect to a server, a master that
// Sentinel monitors, or a cluster. New sends no command. Close does not close the client.
//
// The client may have retries enabled. The store disables them for operations that write. A hook of
// the client must return the error of the next hook, and must not keep a command after its return,
// because the store reuses the arguments.
func New(client redis.UniversalClient, cfg Config) (*Store, error) {
	s, err := open(client, cfg)
	if err != nil {
		return nil, fmt.Errorf("open redis store: %w", err)
	}
	return s, nil
}

func open(client redis.UniversalClient, cfg Config) (*Store, error) {
	switch client.(type) {
	case nil:
		return nil, errors.New("the client is nil")
	case *redis.Ring:
		return nil, errors.New("a redis.Ring does not keep the keys of a partition on one server: use a redis.ClusterClient")
	}
	if cfg.Prefix == "" {
		cfg.Prefix = DefaultPrefix
	}
	if strings.ContainsAny(cfg.Prefix, "{} \t\r\n") {
		return nil, fmt.Errorf("prefix %q has braces or white space", cfg.Prefix)
	}
	if cfg.Partitions == 0 {
		cfg.Partitions = DefaultPartitions
	}
	if cfg.Partitions < 0 || cfg.Partitions > maxPartitions {
		return nil, fmt.Errorf("%d partitions: use 1 to %d", cfg.Partitions, maxPartitions)
	}
	if cfg.WaitReplicas < 0 {
		return nil, fmt.Errorf("wait for %d replicas", cfg.WaitReplicas)
	}
	if cfg.WaitTimeout <= 0 {
		cfg.WaitTimeout = DefaultWaitTimeout
	}
	s := &Store{
		client: client, cfg: cfg, injected: cfg.Clock, server: newServerClock(),
		names: newNames(), done: make(chan struct{}), inspected: map[int]*keySet{}, manyRuns: manyRuns, fewest: fewestCalls,
	}
	s.pubsub = newPubsub(client, s.done)
	for n := range cfg.Partitions {
		s.parts = append(s.parts, newPartition(cfg.Prefix, n))
	}
	return s, nil
}

// maxPartitions is the maximum number of partitions.
const maxPartitions = 1 << 12

// Clock returns the clock of the server, estimated from answers of the server. The error of the
// estimate is at most the duration of a request. Before the first operation, the clock shows the
// time of the machine.
func (s *Store) Clock() store.Clock {
	if s.injected != nil {
		return s.injected
	}
	return s.server
}

// Partitions returns the number of partitions.
func (s *Store) Partitions() int { return len(s.parts) }

// Close ends blocked calls with store.ErrClosed. Every later call returns this error. If the store
// was created by Open, calls in progress fail.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.done)
		s.retained.close()
		s.pubsub.close()
		if s.owned {
			s.closed = s.client.Close()
		}
	})
	return s.closed
}

// enter returns an error if the store is closed or ctx has ended. Every operation calls it first.
func (s *Store) enter(ctx context.Context) error {
	select {
	case <-s.done:
		return store.ErrClosed
	default:
		return ctx.Err()
	}
}

// enterPartition is like enter, but also returns the partition with the given number.
func (s *Store) enterPartition(ctx context.Context, number int) (*partition, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	if number < 0 || number >= len(s.parts) {
		return nil, fmt.Errorf("partition %d of %d does not exist", number, len(s.parts))
	}
	return s.parts[number], nil
}

func (s *Store) partitionOf(run event.RunID) *partition {
	return s.parts[int(run.Slot())%len(s.parts)]
}

func (s *Store) partitionOfName(workflowID string) *partition {
	return s.parts[int(event.SlotOf(workflowID))%len(s.parts)]
}

// schemes are the URL schemes that this package registers for store.Open. The function Open
// documents them.
var schemes = []string{"redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel"}

func init() {
	for _, scheme := range schemes {
		store.RegisterExists(scheme, existsURL)
		store.Register(scheme, func(_ context.Context, url string) (store.Store, error) { return Open(url) })
	}
}

// existsURL returns an error if the database contains no store with the prefix of the URL.
func existsURL(ctx context.Context, url string) error {
	s, err := Open(url)
	if err != nil {
		return err
	}
	return errors.Join(s.exists(ctx), s.Close())
}

func (s *Store) exists(ctx context.Context) error {
	err := s.client.Get(ctx, s.parts[0].format()).Err()
	if errors.Is(err, redis.Nil) {
		return &store.MissingError{What: "redis prefix " + s.cfg.Prefix}
	}
	if err != nil {
		return s.explain(ctx, fmt.Errorf("read the format of the store: %w", err))
	}
	return nil
}

// serverClock estimates the time of the server. The estimate is the time in the last answer of the
// server plus the time that has passed since the answer on the monotonic clock of the process.
// Changes of the wall clock of the machine do not affect it.
type serverClock struct {
	wall    func() time.Time     // wall clock of the machine
	elapsed func() time.Duration // monotonic clock of the process
	asking  atomic.Bool
	last    atomic.Pointer[serverTime] // last answer of the server; nil if there is none

	mu    sync.Mutex
	trip  time.Duration // duration of the request that was answered by last
	asked time.Duration // monotonic time of the last request
	then  time.Time     // wall time of the last request
}

// serverTime is an answer of the server.
type serverTime struct {
	shown time.Time     // time in the answer
	taken time.Duration // monotonic time of the answer
}

var _ store.Clock = (*serverClock)(nil)

func newServerClock() *serverClock {
	start := time.Now()
	return &serverClock{wall: time.Now, elapsed: func() time.Duration { return time.Since(start) }}
}

// Now returns the estimated time of the server. Before the first answer it returns the time of the
// machine.
func (c *serverClock) Now() time.Time {
	last := c.last.Load()
	if last == nil {
		return c.wall()
	}
	return last.shown.Add(c.elapsed() - last.taken)
}

// AfterFunc calls f in its own goroutine after d.
func (c *serverClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// Timer is like AfterFunc. The timer can be reused.
func (c *serverClock) Timer(d time.Duration, f func()) *time.Timer { return time.AfterFunc(d, f) }

const (
	// clockAge is the time after which the clock of the server is read again.
	clockAge = 30 * time.Second
	// clockJump is the difference between the wall clock and the monotonic clock above which the
	// clock of the server is read at once. Such a difference occurs if the machine was suspended,
	// because the monotonic clock may stop during a suspend.
	clockJump = time.Second
)

// old reports whether the clock of the server should be read.
func (c *serverClock) old() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.elapsed()
	return c.last.Load() == nil || now-c.asked > clockAge || c.jumped(now, c.wall())
}

// jumped reports whether the wall clock and the monotonic clock have diverged since the last
// request. The caller must hold the lock.
func (c *serverClock) jumped(now time.Duration, wall time.Time) bool {
	apart := wall.Round(0).Sub(c.then.Round(0)) - (now - c.asked)
	return apart.Abs() > clockJump
}

// observe records an answer of the server. The server had the time shown at some moment between
// sent and received. An answer that took much longer than the previous one is less precise, so
// observe ignores it unless the previous answer is old.
func (c *serverClock) observe(shown time.Time, sent, received time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	trip, wall, last := received-sent, c.wall(), c.last.Load()
	if last == nil || trip <= 2*c.trip || received-last.taken > 2*clockAge || c.jumped(received, wall) {
		c.last.Store(&serverTime{shown.Add(trip / 2).Round(0), received})
		c.trip = trip
	}
	c.asked, c.then = received, wall
}

// keepTime reads the clock of the server of a partition if the estimate is old. Only one operation
// reads it at a time, and an error does not affect that operation.
func (s *Store) keepTime(ctx context.Context, p *partition) {
	if s.injected != nil || !s.server.old() || !s.server.asking.CompareAndSwap(false, true) {
		return
	}
	defer s.server.asking.Store(false)
	_ = s.readClock(ctx, p) // the next operation tries it again
}

// readClock reads the clock of the server of a partition and records the answer.
func (s *Store) readClock(ctx context.Context, p *partition) error {
	if s.injected != nil {
		return nil
	}
	node, err := s.master(ctx, p)
	if err != nil {
		return err
	}
	sent := s.server.elapsed()
	shown, err := node.Time(ctx).Result()
	if err != nil {
		return err
	}
	s.server.observe(shown, sent, s.server.elapsed())
	return nil
}

// formatVersion is the version of the stored format. The names of keys contain it, so processes of
// different versions use different keys. docs/internals/formats.md describes how to change the
// format.
const formatVersion = 1

// prepare checks that the database has the format of this release and the configured number of
// partitions. It marks a new database. It runs before each operation until it has succeeded once.
//
// The operation uses partition p. In a cluster, prepare needs only the server of p, because each
// partition has a copy of the mark.
func (s *Store) prepare(ctx context.Context, p *partition) error {
	if s.prepared.Load() {
		return nil
	}
	s.preparing.Lock()
	defer s.preparing.Unlock()
	if s.prepared.Load() {
		return nil
	}
	if err := s.checkServer(ctx, p); err != nil {
		return err
	}
	if err := s.readClock(ctx, p); err != nil {
		return s.explain(ctx, err)
	}
	mark, err := s.checkFormat(ctx)
	switch {
	case err == nil:
		s.copyMark(ctx, mark)
	case !store.Unknown(err):
		return err
	default:
		if !s.copied(ctx, p) {
			return err
		}
	}
	s.prepared.Store(true)
	return nil
}

// checkFormat returns the mark, and writes it if it is missing. It reads the mark first: a server
// at its memory limit refuses every command that may need memory, even if the key exists. An
// operator must be able to open the store in this situation.
func (s *Store) checkFormat(ctx context.Context) (string, error) {
	key := s.parts[0].format()
	mark, err := s.client.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		var kept *redis.StringCmd
		_, err = s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.SetNX(ctx, key, s.mark(), 0)
			kept = p.Get(ctx, key)
			return nil
		})
		mark = kept.Val()
	}
	if err != nil {
		return "", s.explain(ctx, fmt.Errorf("read the format of the store: %w", err))
	}
	return mark, s.compareMark(mark)
}

// copyMark copies the mark of partition 0 to each partition of a cluster. With a copy, the other
// servers can be used while the server of partition 0 is unavailable. The caller must have checked
// the mark, so the number of partitions is decided only in partition 0. If a copy cannot be
// written, the next process writes it.
func (s *Store) copyMark(ctx context.Context, mark string) {
	if _, cluster := s.client.(*redis.ClusterClient); !cluster || len(s.parts) == 1 {
		return
	}
	_, _ = s.client.Pipelined(ctx, func(tx redis.Pipeliner) error {
		for _, p := range s.parts[1:] {
			tx.SetNX(ctx, p.format(), mark, 0)
		}
		return nil
	})
}

// copied reports whether a partition has a copy of the mark of this store.
func (s *Store) copied(ctx context.Context, p *partition) bool {
	if p.number == 0 {
		return false
	}
	mark, err := s.client.Get(ctx, p.format()).Result()
	return err == nil && s.compareMark(mark) == nil
}

// mark returns the mark that this store writes.
func (s *Store) mark() string { return fmt.Sprintf("flowgen %d %d", formatVersion, len(s.parts)) }

// compareMark returns an error if this store must not use a database with the given mark.
func (s *Store) compareMark(mark string) error {
	words := strings.Fields(mark)
	if len(words) != 3 || words[0] != "flowgen" {
		return fmt.Errorf("%w: key %s is %q", store.ErrForeign, s.parts[0].format(), mark)
	}
	version, err1 := strconv.Atoi(words[1])
	partitions, err2 := strconv.Atoi(words[2])
	switch {
	case err1 != nil || err2 != nil:
		return fmt.Errorf("%w: key %s is %q", store.ErrForeign, s.parts[0].format(), mark)
	case version != formatVersion:
		return &store.VersionError{What: "redis prefix " + s.cfg.Prefix, Got: version, Known: formatVersion}
	case partitions != len(s.parts):
		return &PartitionsError{Prefix: s.cfg.Prefix, Got: len(s.parts), Want: partitions}
	}
	return nil
}

// checkServer returns an error if the server is too old. It accepts a server that does not report
// its version.
func (s *Store) checkServer(ctx context.Context, p *partition) error {
	node, err := s.master(ctx, p)
	if err != nil {
		return s.explain(ctx, fmt.Errorf("read the version of the server: %w", err))
	}
	info, err := node.Info(ctx, "server").Result()
	if redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "ERR") {
		return nil
	}
	if err != nil {
		return s.explain(ctx, fmt.Errorf("read the version of the server: %w", err))
	}
	_, after, ok := strings.Cut(info, "redis_version:")
	version, _, _ := strings.Cut(after, "\r\n")
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); ok && err == nil && n < 7 {
		return &serverVersionError{version}
	}
	return nil
}

// serverVersionError reports that the version of a server is not supported.
type serverVersionError struct{ version string }

// Permanent returns true.
func (e *serverVersionError) Permanent() bool { return true }

func (e *serverVersionError) Error() string {
	return fmt.Sprintf("the server is Redis %s: version 7.0 or later is needed", e.version)
}
