package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

var _ store.ViewKeeper = (*Store)(nil)

// SaveView stores a view in partition 0, and waits for replicas as a commit does.
func (s *Store) SaveView(ctx context.Context, v store.View) error {
	err := s.enter(ctx)
	var packed []byte
	if err == nil {
		packed, err = v.Pack(s.Clock().Now())
	}
	if err == nil {
		err = s.writeView(ctx, v.Name, packed)
	}
	if err != nil {
		return fmt.Errorf("save view: %w", err)
	}
	return nil
}

// DeleteView removes a view.
func (s *Store) DeleteView(ctx context.Context, name string) error {
	err := s.enter(ctx)
	if err == nil {
		err = s.writeView(ctx, name, nil)
	}
	if err != nil {
		return fmt.Errorf("delete view: %w", err)
	}
	return nil
}

// writeView writes a view, or removes it if packed is empty.
func (s *Store) writeView(ctx context.Context, name string, packed []byte) error {
	p := s.parts[0]
	c := &call{script: scriptView, p: p, keys: []string{p.views()}, args: []any{name, packed, store.MaxViews}, size: len(packed)}
	if err := s.doReplicated(ctx, c); err != nil {
		return err
	}
	switch c.answer().word() {
	case "full":
		return store.ErrViewsFull
	case "none":
		return store.ErrViewNotFound
	}
	return nil
}

// Views returns all views.
func (s *Store) Views(ctx context.Context) ([]store.View, error) {
	err := s.enter(ctx)
	var kept *redis.MapStringStringCmd
	if err == nil {
		p := s.parts[0]
		err = s.transaction(ctx, p, func(tx redis.Pipeliner) { kept = tx.HGetAll(ctx, p.views()) })
	}
	if err != nil {
		return nil, fmt.Errorf("read views: %w", err)
	}
	return store.UnpackViews(kept.Val()), nil
}

func (v *view) showViews(snap *store.Snapshot) {
	if len(v.views.Val()) > 0 {
		snap.Views = map[string][]byte{}
	}
	for name, packed := range v.views.Val() {
		snap.Views[name] = []byte(packed)
	}
}

// lookAtViews finds views that cannot be decoded.
func (e *partitionState) lookAtViews() {
	for _, name := range sortedKeys(e.views.Val()) {
		packed := e.views.Val()[name]
		if _, err := store.UnpackView(name, []byte(packed)); err != nil {
			e.repairable(store.Defect{Invariant: 27, What: fmt.Sprintf("there is %.60q as view %.60q, which is none", packed, name), Explain: "it is shown to nobody"},
				"remove it: an operator can save it again", swap{key: e.p.views(), kind: inHash, field: name, seen: packed})
		}
	}
}
