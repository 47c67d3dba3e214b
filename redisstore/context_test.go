package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// requests contains one call of each kind: a script, a transaction, a plain command and a waiting
// call.
var requests = map[string]func(ctx context.Context, st *redisstore.Store, run event.RunID) error{
	"resolve": func(ctx context.Context, st *redisstore.Store, _ event.RunID) error {
		_, err := st.Resolve(ctx, "order")
		return err
	},
	"deliver": func(ctx context.Context, st *redisstore.Store, run event.RunID) error {
		_, err := st.Deliver(ctx, store.Deliver{Run: run, Item: store.Item{ID: "a", Body: []byte("1")}})
		return err
	},
	"load": func(ctx context.Context, st *redisstore.Store, run event.RunID) error {
		_, err := st.Load(ctx, []store.Load{{Run: run}})
		return err
	},
	"read stream": func(ctx context.Context, st *redisstore.Store, run event.RunID) error {
		_, err := st.ReadStream(ctx, store.ReadStream{Run: run, Stream: "a"})
		return err
	},
	"await stream": func(ctx context.Context, st *redisstore.Store, run event.RunID) error {
		return st.AwaitStream(ctx, run, "a", 0)
	},
	"watch": func(ctx context.Context, st *redisstore.Store, run event.RunID) error { return st.Watch(ctx, run, 1) },
	"heartbeat": func(ctx context.Context, st *redisstore.Store, _ event.RunID) error {
		_, err := st.Heartbeat(ctx, 0, "session")
		return err
	},
	"list": func(ctx context.Context, st *redisstore.Store, _ event.RunID) error {
		_, err := st.List(ctx, store.Query{})
		return err
	},
	"examine the keys": func(ctx context.Context, st *redisstore.Store, _ event.RunID) error {
		_, err := st.Inspect(ctx)
		return err
	},
}

// TestErrors_SayThatTheContextHasEnded proves that a call returns the error of its context if the
// context has ended. The connection itself reports only a timeout.
func TestErrors_SayThatTheContextHasEnded(t *testing.T) {
	t.Parallel()
	for name, request := range requests {
		for _, way := range []struct {
			what, parameters string
			end              func() (context.Context, context.CancelFunc)
			want             error
		}{
			{"deadline", "partitions=1", func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(context.Background(), 50*time.Millisecond)
			}, context.DeadlineExceeded},
			{"cancel", "partitions=1&read_timeout=100ms", func() (context.Context, context.CancelFunc) {
				return context.WithCancel(context.Background())
			}, context.Canceled},
		} {
			t.Run(name+"/"+way.what, func(t *testing.T) {
				t.Parallel()
				proxy := redistest.NewProxy(t, redistest.Shared(t).Addr)
				prefix := redistest.Prefix()
				st := openURL(t, with("redis://"+proxy.Addr, way.parameters+"&prefix="+prefix))
				defer st.Close()
				run := event.NewRunID(time.Now(), 0)
				if _, err := st.Resolve(context.Background(), "order"); !errors.Is(err, store.ErrRunNotFound) {
					t.Fatal(err)
				}
				ctx, cancel := way.end()
				defer cancel()
				over := make(chan struct{})
				defer close(over)
				proxy.Do(func(answer bool, _ []byte) redistest.Verdict {
					if !answer {
						return redistest.Pass
					}
					if way.want == context.Canceled {
						cancel()
					}
					<-over // the request is never answered
					return redistest.Drop
				})
				if err := request(ctx, st, run); !errors.Is(err, way.want) {
					t.Errorf("got %v, want %v", err, way.want)
				}
			})
		}
	}
}
