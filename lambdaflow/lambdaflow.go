package lambdaflow

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
)

// Start creates a handler and serves invocations with it. It does not return. newHandler is called
// once per process. If it fails, Start reports the error to AWS Lambda as an error of the
// initialization, and ends the process with exit status 1.
func Start(newHandler func(context.Context) (http.Handler, error)) {
	h, err := newHandler(context.Background())
	if err != nil {
		if reported := reportInit(err); reported != nil {
			log.Printf("lambdaflow: report the error of the initialization: %v", reported)
		}
		log.Fatalf("lambdaflow: initialize the function: %v", err)
	}
	lambda.Start(Wrap(h))
}

// Wrap returns a Lambda handler that passes each event to h as a request. Events may be passed
// concurrently.
func Wrap(h http.Handler) lambda.Handler {
	return lambda.NewHandler(func(ctx context.Context, payload json.RawMessage) (*response, error) {
		r, err := newRequest(ctx, payload)
		if err != nil {
			return nil, err
		}
		w := &writer{header: http.Header{}}
		h.ServeHTTP(w, r)
		return w.response(), nil
	})
}

// reportInit sends an error of the initialization to the runtime API.
func reportInit(failure error) error {
	address := os.Getenv("AWS_LAMBDA_RUNTIME_API")
	if address == "" {
		return nil
	}
	body, err := json.Marshal(map[string]any{"errorMessage": failure.Error(), "errorType": "InitError", "stackTrace": []string{}})
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+address+"/2018-06-01/runtime/init/error", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Lambda-Runtime-Function-Error-Type", "Runtime.InitError")
	// The runtime API is on this machine. A proxy of the environment is for other addresses.
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	answer, err := client.Do(req)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusAccepted {
		return fmt.Errorf("got status %s", answer.Status)
	}
	return nil
}
