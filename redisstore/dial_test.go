package redisstore_test

import (
	"context"
	"net"
)

// dialing dials other addresses than the cluster tells.
func dialing(through map[string]string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if proxy, ok := through[addr]; ok {
			addr = proxy
		}
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
}
