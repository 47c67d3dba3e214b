package redisstore_test

import (
	"errors"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/store"
)

func TestOpenExisting_APrefixThatNobodyHasUsedIsAnErrorAndStaysSo(t *testing.T) {
	url := redistest.Start(t).URL() + "?prefix=other"
	for range 2 {
		s, err := store.OpenExisting(t.Context(), url)
		if err == nil {
			_ = s.Close()
		}
		if missing, ok := errors.AsType[*store.MissingError](err); !ok || missing.What != "redis prefix other" {
			t.Fatalf("got %v, want a MissingError that names the prefix", err)
		}
	}
	s, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.(store.Lister).List(t.Context(), store.Query{Limit: 1}); err != nil {
		t.Fatal(err)
	}
	existing, err := store.OpenExisting(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if err := existing.Close(); err != nil {
		t.Error(err)
	}
}
