package speed

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// redisTarget measures redisstore on one server.
type redisTarget struct {
	options *redis.Options
	admin   *redis.Client
	site    *harm.Site // nil if the server is external
}

func newRedisTarget(ctx context.Context, url string) (*redisTarget, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("read the URL of -store: %w", err)
	}
	// These options equal those of redisstore.Open. Open cannot be used, because its client does
	// not allow commands to be counted.
	o.ContextTimeoutEnabled, o.PipelinePoolSize, o.MaxRetries = true, -1, -1
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.PoolSize, o.MaxActiveConns = 9, 9
	plain := *o
	t := &redisTarget{options: o, admin: redis.NewClient(&plain)}
	if err := t.admin.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("reach the server at %s: %w", o.Addr, err), t.admin.Close())
	}
	return t, nil
}

// startRedis starts a server and returns a target for it.
func startRedis(ctx context.Context) (*redisTarget, error) {
	site, err := harm.Open(ctx, "", "redis")
	if err != nil {
		return nil, err
	}
	t, err := newRedisTarget(ctx, site.URL)
	if err != nil {
		site.Close()
		return nil, err
	}
	t.site = site
	return t, nil
}

func (*redisTarget) name() string { return "redis" }

func (t *redisTarget) close() error {
	err := t.admin.Close()
	if t.site != nil {
		t.site.Close()
	}
	return err
}

func (t *redisTarget) fresh(ctx context.Context) (bed, error) {
	if err := appendScript.Load(ctx, t.admin).Err(); err != nil {
		return nil, fmt.Errorf("load the script of the limit: %w", err)
	}
	o := *t.options
	b := &redisBed{admin: t.admin, client: redis.NewClient(&o), prefix: "bench-" + event.NewToken().String()}
	b.client.AddHook(&b.sent)
	st, err := redisstore.New(b.client, redisstore.Config{Prefix: b.prefix})
	if err != nil {
		return nil, errors.Join(err, b.client.Close())
	}
	b.st = st
	return b, nil
}

// redisBed is a store under a key prefix on a server.
type redisBed struct {
	admin  *redis.Client // client whose commands are not counted
	client *redis.Client // client that the store and the limit use
	prefix string
	sent   sent
	st     *redisstore.Store
}

func (b *redisBed) store() store.Store { return b.st }

// usage returns the number of commands that the store has sent, and the counters of the server. It
// omits commands of subscriptions, because they do not pass the hooks of a client.
func (b *redisBed) usage(ctx context.Context) (usage, error) {
	done, err := harm.ReadStats(ctx, b.admin)
	return usage{
		commands: float64(b.sent.n.Load()) + done["cmdstat_subscribe"] + done["cmdstat_unsubscribe"], cpu: done.CPU(), calls: done.Calls(),
	}, err
}

// each calls f with batches of the keys that have the prefix, until f has received all keys.
func (b *redisBed) each(ctx context.Context, f func(keys []string) error) error {
	for cursor := uint64(0); ; {
		keys, next, err := b.admin.Scan(ctx, cursor, "{"+b.prefix+":*", 1000).Result()
		if err == nil && len(keys) > 0 {
			err = f(keys)
		}
		if err != nil {
			return fmt.Errorf("go through the keys of %s: %w", b.prefix, err)
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// bytes returns the sum of the results of MEMORY USAGE for all keys.
func (b *redisBed) bytes(ctx context.Context) (int64, error) {
	var sum int64
	err := b.each(ctx, func(keys []string) error {
		pipe := b.admin.Pipeline()
		for _, k := range keys {
			pipe.MemoryUsage(ctx, k, 0)
		}
		answers, err := pipe.Exec(ctx)
		if err != nil && !errors.Is(err, redis.Nil) { // The key may have been deleted.
			return err
		}
		for _, a := range answers {
			sum += a.(*redis.IntCmd).Val()
		}
		return nil
	})
	return sum, err
}

func (b *redisBed) discard() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := errors.Join(b.st.Close(), b.client.Close())
	return errors.Join(err, b.each(ctx, func(keys []string) error { return b.admin.Unlink(ctx, keys...).Err() }))
}

//go:embed append.lua
var appendText string

var appendScript = redis.NewScript(appendText)

// keys returns the keys of a row of the limit, which are its metadata and its log. Both are in the
// same slot.
func (b *redisBed) keys(r *row) []string {
	tag := "{" + b.prefix + ":limit}:"
	return []string{tag + "m:" + r.id, tag + "l:" + r.id}
}

// append executes one script for each row, all in a single round trip.
func (b *redisBed) append(ctx context.Context, rows []*row, frame []byte) error {
	pipe := b.client.Pipeline()
	answers := make([]*redis.Cmd, len(rows))
	for i, r := range rows {
		answers[i] = appendScript.EvalSha(ctx, pipe, b.keys(r), 1, "12345678", r.prev[:], r.cid[:], frame)
	}
	_, err := pipe.Exec(ctx)
	if err != nil {
		return fmt.Errorf("append to %d logs: %w", len(rows), err)
	}
	for i, a := range answers {
		if n, err := a.Uint64(); err != nil || n != rows[i].n+1 {
			return fmt.Errorf("append to log %s: %w", rows[i].id, errPosition)
		}
	}
	return nil
}

func (b *redisBed) drop(ctx context.Context, rows []*row) error {
	pipe := b.admin.Pipeline()
	lengths := make([]*redis.IntCmd, len(rows))
	for i, r := range rows {
		keys := b.keys(r)
		lengths[i] = pipe.XLen(ctx, keys[1])
		pipe.Unlink(ctx, keys...)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("remove the logs of the limit: %w", err)
	}
	for i, l := range lengths {
		if got := uint64(l.Val()); got != rows[i].n {
			return fmt.Errorf("log %s has %d frames, want %d", rows[i].id, got, rows[i].n)
		}
	}
	return nil
}

// sent counts the commands that a client sends. It is a hook of the client.
type sent struct{ n atomic.Int64 }

// DialHook returns next.
func (s *sent) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook counts a command.
func (s *sent) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.n.Add(1)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook counts the commands of a pipeline.
func (s *sent) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}
