package memstore

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/flowgen/flowgen/runtime/store"
)

var _ store.ViewKeeper = (*Store)(nil)

// views contains the views by name.
type views struct {
	mu   sync.Mutex
	kept map[string][]byte
}

// SaveView saves a view.
func (s *Store) SaveView(ctx context.Context, v store.View) error {
	err := s.enter(ctx)
	if err == nil {
		err = s.views.save(&v, s.clock)
	}
	if err != nil {
		return fmt.Errorf("save view: %w", err)
	}
	return nil
}

func (a *views) save(v *store.View, clock store.Clock) error {
	packed, err := v.Pack(clock.Now())
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, there := a.kept[v.Name]; !there && len(a.kept) >= store.MaxViews {
		return store.ErrViewsFull
	}
	if a.kept == nil {
		a.kept = map[string][]byte{}
	}
	a.kept[v.Name] = packed
	return nil
}

// DeleteView removes a view.
func (s *Store) DeleteView(ctx context.Context, name string) error {
	if err := s.enter(ctx); err != nil {
		return fmt.Errorf("delete view: %w", err)
	}
	a := &s.views
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, there := a.kept[name]; !there {
		return fmt.Errorf("delete view: %w", store.ErrViewNotFound)
	}
	delete(a.kept, name)
	return nil
}

// Views returns all views.
func (s *Store) Views(ctx context.Context) ([]store.View, error) {
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("read views: %w", err)
	}
	return store.UnpackViews(s.views.all()), nil
}

// all returns the stored views.
func (a *views) all() map[string][]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.kept)
}
