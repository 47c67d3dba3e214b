package main

import (
	"bytes"
	"strings"
	"testing"
)

// events has the form of a file of gotestsum: the events of the first execution, followed by the
// events of the repeated tests.
const events = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestFlaky"}
{"Action":"output","Package":"p","Test":"TestFlaky","Output":"=== RUN   TestFlaky\n"}
{"Action":"output","Package":"p","Test":"TestFlaky/other","Output":"    fine\n"}
{"Action":"pass","Package":"p","Test":"TestFlaky/other"}
{"Action":"run","Package":"p","Test":"TestFlaky/part"}
{"Action":"output","Package":"p","Test":"TestFlaky/part","Output":"    a_test.go:7: too late\n"}
{"Action":"fail","Package":"p","Test":"TestFlaky/part"}
{"Action":"fail","Package":"p","Test":"TestFlaky"}
{"Action":"run","Package":"p","Test":"TestBroken"}
{"Action":"output","Package":"p","Test":"TestBroken","Output":"    b_test.go:9: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestBroken"}
{"Action":"run","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"fine\n"}
{"Action":"pass","Package":"p","Test":"TestGood"}
{"Action":"fail","Package":"p"}
{"Action":"run","Package":"p","Test":"TestBroken"}
{"Action":"fail","Package":"p","Test":"TestBroken"}
{"Action":"run","Package":"p","Test":"TestFlaky"}
{"Action":"output","Package":"p","Test":"TestFlaky","Output":"the second time\n"}
{"Action":"pass","Package":"p","Test":"TestFlaky/part"}
{"Action":"pass","Package":"p","Test":"TestFlaky"}
`

func TestReport_NamesTestsThatFailAndThenPass(t *testing.T) {
	tests, err := read(strings.NewReader(events))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if n := report(&out, tests); n != 1 {
		t.Errorf("%d tests are flaky, want one", n)
	}
	const want = "FLAKY: p.TestFlaky: it failed 1 times and then passed; the first output:\n        a_test.go:7: too late\n    === RUN   TestFlaky\n" +
		"--- FAIL: TestBroken: 2 of 2 executions, in p\n"
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &out, want)
	}
}

func TestRead_RefusesWhatIsNoJSON(t *testing.T) {
	if _, err := read(strings.NewReader(`{"Action":"run"` + "\nok p\n")); err == nil {
		t.Error("want an error")
	}
}
