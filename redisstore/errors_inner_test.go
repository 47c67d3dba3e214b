package redisstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// due is a context whose deadline has passed and which has not ended yet.
type due struct{ context.Context }

func (due) Deadline() (time.Time, bool) { return time.Now().Add(-time.Nanosecond), true }

type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

func TestEndOf_MatchesTheContextUnlessTheServerHasAnswered(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	timeout := fmt.Errorf("read tcp: %w", os.ErrDeadlineExceeded)
	full := fmt.Errorf("run script: %w", serverError("OOM"))
	var _ redis.Error = serverError("")
	for _, c := range []struct {
		what string
		ctx  context.Context
		err  error
		want error // nil if the context is not the cause of the error
	}{
		{"no end", context.Background(), timeout, nil},
		{"canceled", canceled, timeout, context.Canceled},
		{"canceled, and the client knows", canceled, context.Canceled, context.Canceled},
		{"past its deadline", due{context.Background()}, timeout, context.DeadlineExceeded},
		{"canceled before its deadline", due{canceled}, timeout, context.Canceled},
		{"canceled after the answer", canceled, full, nil},
	} {
		got := endOf(c.ctx, c.err)
		if !errors.Is(got, c.want) {
			t.Errorf("%s: got %v, want an error that matches %v", c.what, got, c.want)
		}
		if got != nil && !errors.Is(got, c.err) {
			t.Errorf("%s: got %v, which does not say %v", c.what, got, c.err)
		}
	}
}
