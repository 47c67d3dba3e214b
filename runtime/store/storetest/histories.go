package storetest

import "testing"

func runHistories(t *testing.T, cfg Config) {}
