package payment

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Service simulates a payment service that accepts idempotency keys.
type Service struct {
	Charged func(requests int) // called between a charge and the response; may be nil

	mu       sync.Mutex
	requests int
	charges  map[string]string // charge IDs by idempotency key
}

// ServeHTTP charges a customer once for each idempotency key.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		http.Error(w, "no idempotency key", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	if s.charges == nil {
		s.charges = map[string]string{}
	}
	if s.charges[key] == "" {
		s.charges[key] = fmt.Sprint("charge-", len(s.charges)+1)
	}
	s.requests++
	id, requests := s.charges[key], s.requests
	s.mu.Unlock()
	if s.Charged != nil {
		s.Charged(requests)
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, id)
}

// Counts returns the numbers of requests and of charges.
func (s *Service) Counts() (requests, charges int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, len(s.charges)
}

// Run pays an order with a service that drops the connection after the first charge.
func Run(ctx context.Context, client *workflow.Client, out io.Writer) error {
	service := &Service{Charged: func(requests int) {
		if requests == 1 {
			panic(http.ErrAbortHandler)
		}
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: service, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }() // Serve returns an error when the server is closed.
	defer func() { _ = server.Close() }()

	id, err := Settle(ctx, client, "http://"+l.Addr().String(), Order{ID: "order-7", Cents: 4990})
	if err != nil {
		return err
	}
	requests, charges := service.Counts()
	_, err = fmt.Fprintf(out, "order-7 is paid: %s\n%d requests with %d key, %d charge\n", id, requests, charges, charges)
	return err
}
