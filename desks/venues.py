"""The venues that a desk can connect to, in alphabetical order.

Desks stay connected to a venue that is removed from the list.
"""

VENUES = (
    "Alpaca",
    "Binance",
    "Bitfinex",
    "Bitget",
    "Bitstamp",
    "Bitvavo",
    "Bybit",
    "Coinbase Advanced",
    "Crypto.com Exchange",
    "Deribit",
    "dYdX",
    "Gate",
    "Gemini",
    "HTX",
    "Hyperliquid",
    "Interactive Brokers",
    "Kraken",
    "KuCoin",
    "MEXC",
    "OKX",
)
