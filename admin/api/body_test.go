package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
)

func TestOPS3_BodiesThatTwoReadersCouldUnderstandDifferentlyAreRefused(t *testing.T) {
	s := serve(t, api.Config{})
	deep := func(n int) string {
		return `{"workflow":"api.unknown","input":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	for what, body := range map[string]string{
		"no JSON":               `workflow=api.collect`,
		"an array":              `[{"workflow":"api.collect"}]`,
		"a string":              `"api.collect"`,
		"null":                  `null`,
		"half an object":        `{"workflow":"api.collect"`,
		"two objects":           `{"workflow":"api.collect"}{"workflow":"api.collect"}`,
		"more behind it":        `{"workflow":"api.collect"} true`,
		"an unknown field":      `{"workflow":"api.collect","queu":"q"}`,
		"other letters":         `{"Workflow":"api.collect"}`,
		"a field of Go":         `{"workflow":"api.collect","Key":"k"}`,
		"a name twice":          `{"workflow":"api.collect","workflow":"api.other"}`,
		"a name twice, escaped": `{"workflow":"api.collect","workfl\u006fw":"api.other"}`,
		"a name twice, inside":  `{"workflow":"api.collect","tags":{"a":"1","a":"2"}}`,
		"… deep inside":         `{"workflow":"api.collect","input":{"x":[{"a":1,"b":[],"a":2}]}}`,
		"a number as a name":    `{"workflow":17}`,
		"text as a number":      `{"workflow":"api.collect","delayMs":"17"}`,
		"a number of 2^63":      `{"workflow":"api.collect","delayMs":9223372036854775808}`,
		"a fraction":            `{"workflow":"api.collect","delayMs":1.5}`,
		"no UTF-8":              "{\"workflow\":\"api.collect\",\"id\":\"\xff\"}",
		"too deep":              deep(500),
		"10,000 deep":           deep(10_000),
		"a comment":             `{"workflow":"api.collect"/**/}`,
		"only spaces":           ` `,
		"a byte order mark":     "\ufeff" + `{"workflow":"api.collect"}`,
	} {
		s.wants(what, s.ask("POST", "/v1/runs", body), 400, admin.CodeInput)
	}
	s.wants("as deep as may be", s.ask("POST", "/v1/runs", deep(499)), 201, "")
	s.wants("one name in several objects", s.ask("POST", "/v1/runs", `{"workflow":"api.unknown","input":[{"a":1},{"a":{"a":2}},"a",["a"]]}`), 201, "")
	for what, header := range map[string]string{
		"a form": "application/x-www-form-urlencoded", "text": "text/plain", "JSON in Latin 1": "application/json; charset=iso-8859-1", "none": "", "a type like it": "application/jsonx",
	} {
		s.wants(what, s.ask("POST", "/v1/runs", `{"workflow":"api.collect"}`, "Content-Type: "+header), 415, admin.CodeInput)
	}
	s.wants("compressed", s.ask("POST", "/v1/runs", `{"workflow":"api.collect"}`, "Content-Encoding: gzip"), 415, admin.CodeInput)
	s.wants("JSON in UTF-8", s.ask("POST", "/v1/runs", `{"workflow":"api.collect"}`, "Content-Type: application/json; charset=UTF-8"), 201, "")
	s.wants("an action without a body", s.ask("POST", "/v1/runs/"+s.run+"/pause", ""), 202, "")
}

func TestOPS3_QueriesThatMakeNoSenseAreRefused(t *testing.T) {
	s := serve(t, api.Config{})
	for _, query := range []string{
		"runs?statu=failed", "runs?status=asleep", "runs?limit=ten", "runs?limit=1001", "runs?limit=1&limit=2", "runs?tag=region", "runs?tag=a=1&tag=a=2", "runs?tag=a%25zz=1",
		"runs?since=yesterday", "runs?children=yes", "runs?cursor=no", "runs?limit=%zz", "runs?a;b", "runs/count?budget=-1", "runs/" + s.run + "/events?from=-1", "runs/" + s.run + "/events?from=18446744073709551616",
		"runs/" + s.run + "/events?limit=1001", "runs/" + s.run + "/result?wait=soon", "runs/" + s.run + "/result?wait=61s", "runs/" + s.run + "/result?wait=-1s", "runs/" + s.run + "?x=1", "runs/" + s.run + "/follow?from=x",
	} {
		s.wants(query, s.ask("GET", "/v1/"+query, ""), 400, admin.CodeInput)
	}
}

func TestOPS3_BodiesAreBounded(t *testing.T) {
	s := serve(t, api.Config{MaxBody: 4 << 10, BodyTime: 100 * time.Millisecond})
	over := func(n int) string { return `{"workflow":"api.unknown","input":"` + strings.Repeat("x", n) + `"}` }
	s.wants("as long as may be", s.ask("POST", "/v1/runs", over(4<<10-40)), 201, "")
	s.wants("oversized", s.ask("POST", "/v1/runs", over(4<<10)), 413, admin.CodeInput)

	// The server stops reading an endless body at the limit.
	conn := s.dial()
	defer conn.Close()
	sent := make(chan int)
	go func() {
		n := 0
		_, err := io.WriteString(conn, "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
		for chunk := fmt.Sprintf("%x\r\n%s\r\n", 1024, strings.Repeat(" ", 1024)); err == nil; n += 1024 {
			_, err = io.WriteString(conn, chunk)
		}
		sent <- n
	}()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.wants("endless", s.read(answer), 413, admin.CodeInput)
	conn.Close()
	<-sent

	// The server stops waiting for a body at the time limit.
	for what, part := range map[string]string{"nothing of it": "", "half of it": `{"workflow":`} {
		g := s.raw("POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n" + part)
		s.wants("slow, "+what, g, 408, admin.CodeTimeout)
	}
	// The server does not close a connection that is idle for longer than the time limit for a
	// body.
	s.wants("afterwards", s.ask("GET", "/v1/runs", ""), 200, "")
	short := s.raw("POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 26\r\nConnection: close\r\n\r\n{\"workflow\":\"api.collect\"}")
	s.wants("of the length that it says", short, 201, "")
}

func TestOPS3_APrincipalMakesSoManyChangesInASecond(t *testing.T) {
	now := time.Now()
	tokens, secrets := tokensOf(t, admin.Token{Name: "ada", Role: admin.RoleOperator, Expires: now.Add(time.Hour)}, admin.Token{Name: "ada", Role: admin.RoleOperator, Expires: now.Add(time.Hour)},
		admin.Token{Name: "bob", Role: admin.RoleOperator, Expires: now.Add(time.Hour)})
	s := serve(t, api.Config{Auth: tokens, Mutations: 3, Now: func() time.Time { return now }})
	send := func(i int) got {
		return s.ask("POST", "/v1/runs/"+s.run+"/topics/items", `{"payload":"x"}`, "Authorization: Bearer "+secrets[i])
	}
	for range 3 {
		s.wants("within its share", send(0), 202, "")
	}
	g := send(1) // uses another token of the same principal
	s.wants("beyond its share", g, 429, admin.CodeBusy)
	if g.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q, want 1", g.header.Get("Retry-After"))
	}
	s.wants("reading", s.ask("GET", "/v1/runs", "", "Authorization: Bearer "+secrets[0]), 200, "")
	s.wants("another principal", send(2), 202, "")
	now = now.Add(334 * time.Millisecond)
	s.wants("a third of a second later", send(0), 202, "")
	s.wants("and no more", send(0), 429, admin.CodeBusy)
	now = now.Add(time.Hour)
	for range 3 {
		s.wants("much later", send(0), 202, "")
	}
	s.wants("much later, beyond its share", send(0), 429, admin.CodeBusy)
}

func TestOPS3_APrincipalHoldsSoManyStreams(t *testing.T) {
	tokens, secrets := tokensOf(t, admin.Token{Name: "ada", Role: admin.RoleViewer, Expires: time.Now().Add(time.Hour)}, admin.Token{Name: "bob", Role: admin.RoleViewer, Expires: time.Now().Add(time.Hour)})
	s := serve(t, api.Config{Auth: tokens, Streams: 2})
	open := func(i int) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/runs/"+s.run+"/follow", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+secrets[i])
		answer, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	one, two := open(0), open(0)
	defer two.Body.Close()
	s.wants("a third one", s.read(open(0)), 429, admin.CodeBusy)
	s.wants("waiting counts as one", s.ask("GET", "/v1/runs/"+s.run+"/result?wait=1s", "", "Authorization: Bearer "+secrets[0]), 429, admin.CodeBusy)
	other := open(1)
	defer other.Body.Close()
	if one.StatusCode != http.StatusOK || other.StatusCode != http.StatusOK {
		t.Errorf("got %d and %d, want 200", one.StatusCode, other.StatusCode)
	}
	if err := one.Body.Close(); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(time.Minute); ; { // waits until the server has detected the disconnect
		again := open(0)
		status := again.StatusCode
		if err := again.Body.Close(); err != nil {
			t.Error(err)
		}
		if status == 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a stream that was closed still counts: %d", status)
		}
	}
}

func TestOPS3_AnIdempotencyKeyMakesRequestsOne(t *testing.T) {
	s := serve(t, api.Config{})
	first := s.ask("POST", "/v1/runs", `{"workflow":"api.collect"}`, "Idempotency-Key: k-1")
	s.wants("the first", first, 201, "")
	again := s.ask("POST", "/v1/runs", `{"workflow":"api.collect"}`, "Idempotency-Key: k-1")
	s.wants("again", again, 200, "")
	run := strings.TrimPrefix(first.header.Get("Location"), "/v1/runs/")
	if run == "" || !strings.Contains(first.body, run) || !strings.Contains(again.body, run) || !strings.Contains(again.body, `"created":false`) {
		t.Errorf("got %s at %q, then %s", first.body, first.header.Get("Location"), again.body)
	}
	if r, err := s.direct.Run(t.Context(), run); err != nil || !strings.HasPrefix(r.WorkflowID, "idem:") {
		t.Errorf("got %+v, %v", r, err)
	}
	s.wants("for something else", s.ask("POST", "/v1/runs", `{"workflow":"api.collect","input":1}`, "Idempotency-Key: k-1"), 422, admin.CodeInput)
	s.wants("beside an id", s.ask("POST", "/v1/runs", `{"workflow":"api.collect","id":"x"}`, "Idempotency-Key: k-2"), 400, admin.CodeInput)
	s.wants("that is empty", s.ask("POST", "/v1/runs", `{"workflow":"api.collect"}`, "Idempotency-Key: "), 400, admin.CodeInput)
	s.wants("that is too long", s.ask("POST", "/v1/runs", `{"workflow":"api.collect"}`, "Idempotency-Key: "+strings.Repeat("k", 256)), 400, admin.CodeInput)
	s.wants("given twice", s.ask("POST", "/v1/runs", `{"workflow":"api.collect"}`, "Idempotency-Key: a", "Idempotency-Key: b"), 400, admin.CodeInput)
	restarted := s.ask("POST", "/v1/runs/"+s.run+"/restart", "", "Idempotency-Key: k")
	s.wants("of a restart", restarted, 202, "")
	if g := s.ask("POST", "/v1/runs/"+s.run+"/restart", "", "Idempotency-Key: k"); g.status != 202 || g.body != restarted.body || !strings.Contains(g.body, `"new":"wrun_`) {
		t.Errorf("a restart again: got %d %s, want %s", g.status, g.body, restarted.body)
	}
}

func TestOPS3_PreferWaitsForTheOutcome(t *testing.T) {
	s := serve(t, api.Config{})
	g := s.ask("POST", "/v1/runs", `{"workflow":"api.collect"}`, "Prefer: respond-async, wait=1")
	s.wants("a run that goes on", g, 201, "")
	if g.header.Get("Preference-Applied") != "wait=1" || !strings.Contains(g.body, `"outcome":{`) || strings.Contains(g.body, `"endedAt"`) {
		t.Errorf("got %v %s", g.header, g.body)
	}
	g = s.ask("POST", "/v1/runs/"+s.run+"/asks/nobody", `{"payload":1}`, "Prefer: wait=1")
	s.wants("an ask that nobody answers", g, 504, admin.CodeTimeout)
	s.send("stop")
	g = s.ask("GET", "/v1/runs/"+s.run+"/result?wait=30s", "")
	if g.status != 200 || !strings.Contains(g.body, `"result":0`) {
		t.Errorf("got %d %s", g.status, g.body)
	}
}
