package redisstore_test

import (
	"context"
	"net"
)

// dialing returns a dial function that replaces the addresses that a cluster reports by the
// addresses in through.
func dialing(through map[string]string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if proxy, ok := through[addr]; ok {
			addr = proxy
		}
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
}
