// Package newertest simulates a newer release of flowgen that has an additional event type.
package newertest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Type is the number of an event type that no release has.
const Type = 250

// Store is a store as workers of the newer release use it. In the log, events of the type known
// have the number Type. Workers that use the underlying store directly cannot decode these events.
type Store struct {
	store.Store
	known event.Type
}

// New returns a store of the newer release. It stores events of the type known under the number
// [Type].
func New(st store.Store, known event.Type) *Store { return &Store{st, known} }

// Unwrap returns the underlying store.
func (s *Store) Unwrap() store.Store { return s.Store }

// Commit converts frames to the form of the newer release and commits them.
func (s *Store) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	written := append([]store.Commit(nil), commits...)
	for i := range written {
		frame, err := s.write(written[i].Frame)
		if err != nil {
			return nil, err
		}
		written[i].Frame = frame
	}
	return s.Store.Commit(ctx, written)
}

// Claim claims runs and converts their logs back.
func (s *Store) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	got, err := s.Store.Claim(ctx, c)
	for i := range got.Runs {
		if l := got.Runs[i].Loaded; l != nil {
			read := *l
			read.Frames = s.readAll(l.Frames)
			got.Runs[i].Loaded = &read
		}
	}
	return got, err
}

// Load loads runs and converts their logs back.
func (s *Store) Load(ctx context.Context, loads []store.Load) ([]store.Loaded, error) {
	got, err := s.Store.Load(ctx, loads)
	for i := range got {
		got[i].Frames = s.readAll(got[i].Frames)
	}
	return got, err
}

// write returns the frame in the form of the newer release: an event of the type known gets the
// number Type.
func (s *Store) write(frame []byte) ([]byte, error) {
	f, err := event.DecodeFrame(frame)
	if err != nil {
		return nil, err
	}
	n := 0
	for _, e := range f.Events {
		if e.Type == s.known {
			n++
		}
	}
	switch n {
	case 0:
		return frame, nil
	case 1:
	default:
		return nil, fmt.Errorf("a frame has %d events of type %v, want one at most", n, s.known)
	}
	for i, b := range frame[:len(frame)-sumBytes] {
		if b != byte(s.known) {
			continue
		}
		newer := with(frame, i, Type)
		if _, err := event.DecodeFrame(newer); isNewer(err) {
			return newer, nil
		}
	}
	return nil, fmt.Errorf("no byte of a frame is the type %v of its event", s.known)
}

func (s *Store) readAll(frames [][]byte) [][]byte {
	read := make([][]byte, len(frames))
	for i, frame := range frames {
		read[i] = s.read(frame)
	}
	return read
}

// read returns the frame with the change of write reversed.
func (s *Store) read(frame []byte) []byte {
	if _, err := event.DecodeFrame(frame); !isNewer(err) {
		return frame
	}
	for i, b := range frame[:len(frame)-sumBytes] {
		if b != Type {
			continue
		}
		older := with(frame, i, byte(s.known))
		if _, err := event.DecodeFrame(older); err == nil {
			return older
		}
	}
	return frame
}

// sumBytes is the number of bytes of the checksum at the end of a frame.
const sumBytes = 4

// with returns the frame with byte i set to b and the checksum adjusted.
func with(frame []byte, i int, b byte) []byte {
	f := bytes.Clone(frame)
	f[i] = b
	n := len(f) - sumBytes
	binary.LittleEndian.PutUint32(f[n:], crc32.Checksum(f[:n], crc32.MakeTable(crc32.Castagnoli)))
	return f
}

// isNewer reports whether an error means that a frame contains an event of the number Type.
func isNewer(err error) bool {
	newer, ok := errors.AsType[*event.VersionError](err)
	return ok && newer.Type == Type
}
