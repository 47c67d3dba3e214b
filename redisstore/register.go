package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

// schemes are those of the URLs by which store.Open knows this package. Open says
// what they mean.
var schemes = []string{"redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel"}

func init() {
	for _, scheme := range schemes {
		store.RegisterExists(scheme, existsURL)
		store.Register(scheme, func(_ context.Context, url string) (store.Store, error) { return Open(url) })
	}
}

// existsURL returns an error unless something was stored under the prefix that a URL names.
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
