"""WebShop: find, choose and buy the product that an instruction asks for, in a shop of text pages."""
