package machine_fields

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/step"
)

// Client is something that steps need.
type Client interface{ Do() }

type base struct{ Shared int }

// confused mixes up what is kept and what is needed.
//
//flow:machine start=begin
type confused struct {
	base
	Client  Client
	Updates chan int
	Done    func()
	Hidden  int `json:"-"`
	count   int `json:"count"`
	Nested  struct{ inner int }
	A       int `json:"x"`
	B       int `json:"x"`
	_       int
}

//flow:step
func (m *confused) begin(ctx context.Context) (step.Next[confused, int], error) {
	return m.done(1), nil
}

// writes to what is not kept.
//
//flow:machine start=begin
type writes struct {
	Kept  int
	count int
	text  string
	cache map[string]int
}

//flow:step
func (m *writes) begin(ctx context.Context) (step.Next[writes, int], error) {
	m.Kept++
	m.count++
	m.Kept, m.text = 1, "x"
	m.cache["x"] = 1 // this is shared, and stays
	count := m.count
	count++
	m.helper()
	return m.done(1), nil
}

func (m *writes) helper() { m.count += 2 }

// stored stores itself.
//
//flow:machine start=begin
type stored struct{ A int }

func (stored) MarshalJSON() ([]byte, error) { return nil, nil }

//flow:step
func (m *stored) begin(ctx context.Context) (step.Next[stored, int], error) { return m.done(1), nil }

// embeds something that stores itself.
//
//flow:machine start=begin
type embeds struct {
	time.Time
	A int
}

//flow:step
func (m *embeds) begin(ctx context.Context) (step.Next[embeds, int], error) { return m.done(1), nil }
