package loopback_test

import (
	"testing"

	"github.com/flowgen/flowgen/admin/internal/loopback"
)

func TestHost(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost:80": true, "127.0.0.1": true, "127.9.9.9:1": true, "[::1]": true, "[::1]:80": true, "::1": true, "[::ffff:127.0.0.1]:80": true,
		"": false, "localhost.example.com": false, "127.0.0.1.example.com": false, "10.0.0.1": false, "0.0.0.0": false, "[::]": false, "[::ffff:10.0.0.1]:80": false, "2130706433": false,
	} {
		if got := loopback.Host(host); got != want {
			t.Errorf("%q: got %v", host, got)
		}
	}
}

func TestAddr(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true, "": false, "127.0.0.1": false, "localhost:1": false, "10.0.0.1:1": false, "@": false,
	} {
		if got := loopback.Addr(addr); got != want {
			t.Errorf("%q: got %v", addr, got)
		}
	}
}
