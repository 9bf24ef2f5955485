"""Public lists of prices that need no key, one file each: `fetch(known, open_url, today)`.

A list has prices, but seldom cores or GPUs: it gives new prices to machines that the table knows."""
