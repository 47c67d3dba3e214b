package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"
)

// serving runs the program. It returns the address and the tokens that the program prints.
func serving(t *testing.T) (url, viewer, operator string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, in) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	var values []string
	for lines := bufio.NewScanner(out); len(values) < 3 && lines.Scan(); {
		_, value, _ := strings.Cut(lines.Text(), ": ")
		values = append(values, value)
	}
	url, _, _ = strings.Cut(values[0], "/  ")
	return url, values[1], values[2]
}

// status sends a request with a token and returns the status of the response.
func status(t *testing.T, client *http.Client, method, url, token, body string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

func TestJWT_TheAPIObeysTheRolesOfTheIssuer(t *testing.T) {
	url, viewer, operator := serving(t)
	other, err := newIssuer(url) // another issuer with another key
	if err != nil {
		t.Fatal(err)
	}
	forged, err := other.token("eve", "oncall", time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	direct := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	const start = `{"workflow":"orders.fulfil","input":"order-7"}`
	for name, tt := range map[string]struct {
		method, path, token, body string
		want                      int
	}{
		"list without a token":        {http.MethodGet, "/v1/runs", "", "", http.StatusUnauthorized},
		"list by a forged token":      {http.MethodGet, "/v1/runs", forged, "", http.StatusUnauthorized},
		"list by a viewer":            {http.MethodGet, "/v1/runs", viewer, "", http.StatusOK},
		"start by a viewer":           {http.MethodPost, "/v1/runs", viewer, start, http.StatusForbidden},
		"start by an operator":        {http.MethodPost, "/v1/runs", operator, start, http.StatusCreated},
		"console without a login":     {http.MethodGet, "/runs", "", "", http.StatusSeeOther}, // redirects to the login
		"login with a forged token":   {http.MethodPost, "/v1/login", "", `{"token":"` + forged + `"}`, http.StatusUnauthorized},
		"repair by an operator":       {http.MethodPost, "/v1/repair", operator, `{"reason":"try"}`, http.StatusForbidden},
		"journal by a viewer's token": {http.MethodGet, "/v1/journal", viewer, "", http.StatusForbidden},
	} {
		if got := status(t, direct, tt.method, url+tt.path, tt.token, tt.body); got != tt.want {
			t.Errorf("%s: status %d, want %d", name, got, tt.want)
		}
	}
}

func TestJWT_ABrowserLogsInToTheConsole(t *testing.T) {
	url, viewer, _ := serving(t)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	if got := status(t, browser, http.MethodPost, url+"/v1/login", "", `{"token":"`+viewer+`"}`); got >= 400 {
		t.Fatalf("the login is answered with %d", got)
	}
	if got := status(t, browser, http.MethodGet, url+"/runs", "", ""); got != http.StatusOK {
		t.Errorf("the list of runs is answered with %d", got)
	}
	if got := status(t, browser, http.MethodGet, url+"/journal", "", ""); got != http.StatusForbidden {
		t.Errorf("the journal is answered with %d to a viewer", got)
	}
}
