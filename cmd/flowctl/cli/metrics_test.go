package cli_test

import (
	"net"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/promtest"
)

func TestOPS4_ServeExportsTheGaugesOfItsStoreToPrometheus(t *testing.T) {
	t.Parallel()
	s := open(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // a free address: the process prints it after that of the API
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s.serve("127.0.0.1:0", "--metrics", address)
	prom := promtest.Start(t, address)
	prom.Await(`flowgen_runs{workflow="shop.order",status="failed"}`, 1)
	prom.Await(`flowgen_runs{workflow="shop.order",status="waiting"}`, 1)
	prom.Await(`flowgen_queue_ready{workflow="shop.order",queue="default"}`, 0)
	prom.Await(`count(flowgen_queue_oldest_seconds{workflow="shop.order"})`, 1)
}

func TestOPS4_ServeRefusesAnAddressForMetricsThatIsNone(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.wants(2, nil, []string{`--metrics "nowhere"`, "write 127.0.0.1:9464"}, "serve", "--listen", "127.0.0.1:0", "--metrics", "nowhere")
}
