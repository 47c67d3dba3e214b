// Package newertest simulates a newer release of flowgen with one more event type.
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

// Store presents a store as the newer release sees it: in the log, events of one known type have
// the number Type. A worker on it writes and reads events that a worker on the store itself does
// not know.
type Store struct {
	store.Store
	known event.Type
}

// New returns a store of the newer release. Events of type known are stored as events of the new
// type.
func New(st store.Store, known event.Type) *Store { return &Store{st, known} }

// Unwrap returns the underlying store.
func (s *Store) Unwrap() store.Store { return s.Store }

// Commit writes frames in the form of the newer release.
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

// Claim claims runs and converts their logs from the form of the newer release.
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

// Load reads logs in the form of the newer release.
func (s *Store) Load(ctx context.Context, loads []store.Load) ([]store.Loaded, error) {
	got, err := s.Store.Load(ctx, loads)
	for i := range got {
		got[i].Frames = s.readAll(got[i].Frames)
	}
	return got, err
}

// write returns a frame in which the events of the known type have the number of the new one.
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

// read reverses write.
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

// sumBytes is the length of the checksum at the end of a frame.
const sumBytes = 4

// with returns a frame with byte i replaced and the checksum adjusted.
func with(frame []byte, i int, b byte) []byte {
	f := bytes.Clone(frame)
	f[i] = b
	n := len(f) - sumBytes
	binary.LittleEndian.PutUint32(f[n:], crc32.Checksum(f[:n], crc32.MakeTable(crc32.Castagnoli)))
	return f
}

// isNewer reports whether an error means that a frame is from a newer release.
func isNewer(err error) bool {
	newer, ok := errors.AsType[*event.VersionError](err)
	return ok && newer.Type == Type
}
