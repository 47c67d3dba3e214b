package redisstore

import (
	"context"
	"errors"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

var errNoStreams = errors.New("streams: not there yet")

func (s *Store) Publish(context.Context, event.RunID, store.Fence, []store.Publication) error {
	return errNoStreams
}

func (s *Store) ReadStream(context.Context, store.ReadStream) (store.StreamPage, error) {
	return store.StreamPage{}, errNoStreams
}

func (s *Store) AwaitStream(context.Context, event.RunID, string, uint64) error { return errNoStreams }
