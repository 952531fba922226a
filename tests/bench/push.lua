-- Sends each line of a file once: the body, or the headers' values and the body, split by tabs.
-- wrk -s push.lua URL -- FILE [HEADER…]; prints one line of JSON at the end.

local lines, position, names = {}, 0, {}

function init(arguments)
   for line in io.lines(arguments[1]) do lines[#lines + 1] = line end
   for i = 2, #arguments do names[#names + 1] = arguments[i] end
end

function request()
   position = position % #lines + 1
   local headers, rest = wrk.headers, lines[position]
   for _, name in ipairs(names) do
      headers[name], rest = rest:match("^([^\t]*)\t(.*)$")
   end
   return wrk.format(rest == "" and "GET" or "POST", nil, headers, rest)
end

function done(summary, latency, _)
   local errors = summary.errors
   io.write(string.format(
      '{"requests": %d, "microseconds": %d, "not_2xx": %d, "broken": %d, "p50": %d, "p99": %d}\n',
      summary.requests, summary.duration, errors.status,
      errors.connect + errors.read + errors.write + errors.timeout,
      latency:percentile(50), latency:percentile(99)))
end
